"""Executions: asked for, selected, read from the log, shown."""
