"""What playbooks of today write: names they read, and shapes of steps, loops and tools, in the words of the documents."""
