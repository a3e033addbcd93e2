"""Which stack a command talks to, and the one that `run` and `up` start."""
