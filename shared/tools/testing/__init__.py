"""What answers in place of tools in tests of playbooks and in rehearsals."""
