"""Two executions side by side."""
