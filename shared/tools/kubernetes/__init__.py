"""`kind: container` and `kind: script`: jobs of Kubernetes."""
