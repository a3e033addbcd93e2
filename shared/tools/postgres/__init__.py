"""`kind: postgres`."""
