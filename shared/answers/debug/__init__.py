"""The state of an execution at any point of its log."""
