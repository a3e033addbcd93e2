"""The terminal: screens, tables, progress, options, exit codes. Nothing here knows of a stack."""
