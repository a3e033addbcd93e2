"""The pure core: states, their folds and the three deciders. No I/O, no clock, no randomness."""
