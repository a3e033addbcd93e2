"""`kind: transfer`: rows from one place to another."""
