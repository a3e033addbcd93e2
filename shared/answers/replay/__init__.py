"""Recorded outcomes run through another playbook, without calling a tool."""
