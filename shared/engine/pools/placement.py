"""Which pool a step gets that requires capabilities: chosen once, when an execution starts, and recorded."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from shared.dsl.plan import Step


class Offer(Struct, frozen=True):
    """What a pool provides."""

    pool: str
    provides: frozenset[str]
    paused: bool = False


def needs(steps: Mapping[str, Step]) -> dict[str, tuple[str, ...]]:
    """The steps that ask for a pool by what it provides."""
    return {step.name: step.requires for step in steps.values() if step.tasks and step.requires}


def choose(steps: Mapping[str, Step], offers: Sequence[Offer]) -> dict[str, str] | str:
    """By step: the first pool by name that provides all and is not paused, else the first that provides all. The
    reason, when there is none."""
    chosen = {}
    for step, required in needs(steps).items():
        fitting = sorted((offer for offer in offers if offer.provides >= set(required)),
                         key=lambda offer: (offer.paused, offer.pool))
        if not fitting:
            there = ", ".join(sorted(offer.pool for offer in offers)) or "none with a document"
            return (f"no pool provides {' and '.join(required)}, which step {step} requires "
                    f"(pools: {there}; noetlctl pool list -o wide shows what each provides)")
        chosen[step] = fitting[0].pool
    return chosen
