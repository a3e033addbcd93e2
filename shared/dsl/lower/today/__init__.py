"""What playbooks of today write, in the words of the documents: names they read, and shapes of loops and tools."""
