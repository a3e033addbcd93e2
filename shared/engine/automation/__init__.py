"""What starts executions by itself: when a schedule is due, what a trigger makes of a message."""
