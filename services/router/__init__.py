"""The router: execution requests, control requests, and the decisions of routing."""
