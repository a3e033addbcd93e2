"""What an execution does next: states, their folds and the deciders. Pure: no I/O, no clock, no randomness. Layers,
from the top: routing, pipeline, automation and pools; scheduling; leases; values."""
