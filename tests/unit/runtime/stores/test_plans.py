"""Loading a large playbook does not hold up the others. One of a later edition is not read by the rules of this one."""

import asyncio

import pytest

from shared.dsl.compile import compile_playbook
from shared.dsl.model.edition import EDITION, plan_name
from shared.errors import Corrupt
from shared.runtime.stores import catalog
from shared.runtime.stores.plans import LARGE_CHARS, Plans
from shared.tools import registry
from tests.support.memory_bus import memory_bus
from tests.support.playbooks import head

STEPS = 250
STEP = """  - step: s{}
    tool: {{kind: noop}}
    next: {{arcs: [{{step: s{}, when: "{{{{ workload.n > {} }}}}"}}]}}
"""
SOURCE = (
    head("large", "large") + "workload: {n: 1}\nworkflow:\n"
    "  - step: start\n    next: {arcs: [{step: s0}]}\n"
    + "".join(STEP.format(n, n + 1, n) for n in range(STEPS)) + f"  - step: s{STEPS}\n    tool: {{kind: noop}}\n"
)  # fmt: skip


async def test_others_go_on_while_a_large_playbook_is_compiled_and_it_is_compiled_once() -> None:
    assert len(SOURCE) > LARGE_CHARS
    bus = memory_bus()
    plan = compile_playbook(SOURCE, kinds=registry.specs()).plan
    assert plan is not None
    digest = (await catalog.register(bus, SOURCE.encode(), plan)).digest
    plans, turns = Plans(bus), 0
    loading = [asyncio.create_task(plans.load(digest)) for _ in range(3)]
    while not all(task.done() for task in loading):
        await asyncio.sleep(0)
        turns += 1
    first, *others = [task.result() for task in loading]
    assert all(plan is first for plan in others)
    assert turns > 100, "on the event loop it takes a turn or two"


async def test_a_plan_of_an_edition_that_is_not_known_is_refused() -> None:
    bus = memory_bus()
    plan = compile_playbook(SOURCE, kinds=registry.specs()).plan
    assert plan is not None
    digest = (await catalog.register(bus, SOURCE.encode(), plan)).digest
    with pytest.raises(Corrupt, match=f"by edition {EDITION + 1} of the language; this build knows up to {EDITION}"):
        await Plans(bus).load(plan_name(digest, EDITION + 1))
    assert (await Plans(bus).load(plan_name(digest, EDITION))).digest == plan.digest
