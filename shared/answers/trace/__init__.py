"""Where the time of an execution went."""
