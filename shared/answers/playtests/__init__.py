"""Cases of a test: their results, under which faults, and what they reached."""
