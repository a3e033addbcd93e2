"""The read model in PostgreSQL: its schema, what writes a batch of the log into it, and how it is made again."""
