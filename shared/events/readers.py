"""Who reads whom: the writers of an execution's log that each decider listens to.

A fact about the wire, so it is here, once. A service follows and loads the subjects of these writers and no other;
whoever folds a log as a decider does, to check it, to explain it or to rehearse it, folds the same records. What a
worker says of a plain run concerns the router, what it says of an iteration the scheduler; a task that waits, and what
comes from outside, concern both.
"""

from collections.abc import Mapping
from typing import Literal

from shared.events.record import Writer

Decider = Literal["router", "scheduler"]

INPUTS: Mapping[Decider, tuple[Writer, ...]] = {
    "router": ("worker", "scheduler", "waiting", "control"),
    "scheduler": ("router", "iteration", "waiting", "control"),
}
# Its own decisions are part of what a decider folds.
FOLDED: Mapping[Decider, tuple[Writer, ...]] = {decider: (decider, *inputs) for decider, inputs in INPUTS.items()}
