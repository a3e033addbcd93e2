"""The worker: commands of one pool, run under leases."""
