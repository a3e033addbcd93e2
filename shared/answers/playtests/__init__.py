"""Cases of a test: what came of them, under which faults, and what they reached."""
