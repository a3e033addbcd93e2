"""The projector: the read model in PostgreSQL."""
