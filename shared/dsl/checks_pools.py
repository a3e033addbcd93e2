"""Whether the pools of the steps exist. Which do is known only when a server is: the caller says it."""

from collections.abc import Collection

from shared.dsl.plan import Plan
from shared.dsl.reader import Reader, short
from shared.dsl.sites import Sites, listed
from shared.dsl.source import Path


def check_pools(reader: Reader, plan: Plan, sites: Sites, pools: Collection[str]) -> None:
    """A step without tasks needs no worker. A pool set for all steps is told once, where it is set."""
    told: set[Path] = set()
    for step in plan.steps.values():
        if not step.tasks or step.pool in pools:
            continue
        path = _place(sites, step.name)
        if path in told:
            continue
        told.add(path)
        near = reader.nearest(step.pool, sorted(pools))
        there = f"pools on the server: {listed(sorted(pools)) or 'none'}"
        what = f"there is no pool {short(step.pool)} on the server, so {short(step.name)} cannot run"
        reader.value(path, "DSL409", what, f"did you mean {near}? {there}" if near else there)


def _place(sites: Sites, step: str) -> Path:
    own: Path = (*sites.step(step), "spec", "pool")
    shared: Path = ("executor", "spec", "pool")
    return next((path for path in (own, shared) if sites.has(path)), (*sites.step(step), "step"))
