"""Events, outcomes, records and subjects: what is on the wire."""
