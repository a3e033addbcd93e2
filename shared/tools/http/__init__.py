"""`kind: http`."""
