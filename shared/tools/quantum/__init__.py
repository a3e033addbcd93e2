"""`kind: quantum`: jobs on quantum computers behind one interface, and a simulator that keeps it."""
