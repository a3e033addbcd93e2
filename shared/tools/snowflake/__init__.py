"""`kind: snowflake`."""
