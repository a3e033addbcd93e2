"""The scheduler: loops and waits, commands for worker pools, limits, schedules and triggers."""
