"""A whole execution with the deciders of the services and without the services: a log in memory, answers instead of
tools, a clock that jumps."""
