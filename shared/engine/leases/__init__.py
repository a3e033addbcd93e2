"""Which records of a lease count: the fence, whether a record fits, and which leases were lost."""
