"""A NATS server, PostgreSQL and the services in one folder, for `noetlctl run` and `up`."""
