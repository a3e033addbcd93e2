"""What every other room of the language speaks of: the plan, diagnostics and their codes, the description of a tool
kind, durations and cron. No reading, no checking."""
