"""`kind: nats`: a NATS server of the author's own."""
