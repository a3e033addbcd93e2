"""A whole log as files, and back."""
