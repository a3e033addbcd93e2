"""From YAML to a `Plan`. Pure: a text goes in, a plan and diagnostics come out. Nothing here knows of executions."""
