"""Around every service: settings, secrets, logs, health, the clock, supervision."""
