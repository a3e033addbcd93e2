"""Kinds that have no effect outside: `noop`, `wait`, `signal`, `playbook`, `artifact`."""
