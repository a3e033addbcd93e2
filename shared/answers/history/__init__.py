"""An execution as people see it, folded from its records."""
