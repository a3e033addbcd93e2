"""Whether the pools of the steps exist, and provide what is required of them. Which do is known only when a server
is: the caller says it."""

from collections.abc import Collection, Mapping

from shared.dsl.check.plan_paths import Sites, listed
from shared.dsl.model.plan import Plan, Step
from shared.dsl.read.reader import Reader, short
from shared.dsl.source.nodes import Path


def check_pools(reader: Reader, plan: Plan, sites: Sites, pools: Collection[str]) -> None:
    """A step without tasks needs no worker. A pool set for all steps is reported once, where it is set. A mapping says
    what each pool provides."""
    told: set[Path] = set()
    for step in plan.steps.values():
        if step.tasks and step.requires:
            _check_requires(reader, step, sites, pools if isinstance(pools, Mapping) else {})
            continue
        if not step.tasks or step.pool in pools:
            continue
        path = _path(sites, step.name)
        if path in told:
            continue
        told.add(path)
        near = reader.nearest(step.pool, sorted(pools))
        there = f"pools on the server: {listed(sorted(pools)) or 'none'}"
        what = f"there is no pool {short(step.pool)} on the server, so {short(step.name)} cannot run"
        reader.value(path, "DSL409", what, f"did you mean {near}? {there}" if near else there)


def _check_requires(reader: Reader, step: Step, sites: Sites, pools: Mapping[str, Collection[str]]) -> None:
    if any(set(step.requires) <= set(provides) for provides in pools.values()):
        return
    lacking = [each for each in step.requires if not any(each in provides for provides in pools.values())]
    missing = ", ".join(lacking) if lacking else f"{', '.join(step.requires)} together"
    what = f"no pool on the server provides {missing}"
    there = "; ".join(f"{name}: {', '.join(sorted(provides))}" for name, provides in sorted(pools.items()) if provides)
    reader.value((*sites.step(step.name), "spec", "requires"), "DSL414",
                 f"{what}, so {short(step.name)} cannot run", f"pools provide {there or 'nothing'}")


def _path(sites: Sites, step: str) -> Path:
    own: Path = (*sites.step(step), "spec", "pool")
    shared: Path = ("executor", "spec", "pool")
    return next((path for path in (own, shared) if sites.has(path)), (*sites.step(step), "step"))
