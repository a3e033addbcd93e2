"""Documents beside playbooks: schedules, triggers and pools."""
