"""What the scheduler decides for one execution: loops, waits, limits, and the commands that follow."""
