"""Which pool a step gets that requires capabilities: chosen once, when an execution starts, and recorded."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from shared.dsl.model.plan import Step


class Offer(Struct, frozen=True):
    """What a pool provides."""

    pool: str
    provides: frozenset[str]
    paused: bool = False


class Unplaced(Struct, frozen=True):
    """A step that no pool provides for, and the pools there are."""

    step: str
    requires: tuple[str, ...]
    pools: tuple[str, ...]


def needs(steps: Mapping[str, Step]) -> dict[str, tuple[str, ...]]:
    """The steps that ask for a pool by what it provides."""
    return {step.name: step.requires for step in steps.values() if step.tasks and step.requires}


def choose(steps: Mapping[str, Step], offers: Sequence[Offer]) -> dict[str, str] | Unplaced:
    """By step: the first pool by name that provides all and is not paused, else the first that provides all. The
    first step for which there is none."""
    chosen = {}
    for step, required in needs(steps).items():
        fitting = sorted((offer for offer in offers if offer.provides >= set(required)),
                         key=lambda offer: (offer.paused, offer.pool))
        if not fitting:
            return Unplaced(step, required, tuple(sorted(offer.pool for offer in offers)))
        chosen[step] = fitting[0].pool
    return chosen
