"""Pools as Deployments: `backend: kubernetes`."""
