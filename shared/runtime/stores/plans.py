"""Compiled plans by the names that the log has for them (`edition.py`): read from the catalogue once, kept while in
use."""

import asyncio
from collections import OrderedDict
from contextlib import suppress
from typing import Any

from shared.bus.ports import Bus
from shared.dsl.compile import Compiled, compile_playbook
from shared.dsl.model.edition import EDITION, edition_of, source_of
from shared.dsl.model.plan import Plan, PlanMissing, Step
from shared.dsl.read.template_fields import strings
from shared.dsl.templates.compiler import compiled as code_of
from shared.dsl.templates.evaluate import is_template
from shared.errors import Corrupt, TemplateError
from shared.runtime.stores import catalog
from shared.tools import registry

MAX_PLANS = 500
LARGE_CHARS = 8000  # of a playbook that is compiled in a thread: about 30 ms
LONG_CHARS = 200  # of a template whose code is made when its plan is loaded, not within a decision


class Plans:
    """Call it with the name of a plan; `PlanMissing` asks for `load` first."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._plans: OrderedDict[str, Plan] = OrderedDict()
        self._compiling = asyncio.Lock()  # one at a time: they would only share a core

    def __call__(self, digest: str) -> Plan:
        try:
            return self._plans[digest]
        except KeyError:
            raise PlanMissing(digest) from None

    async def load(self, digest: str) -> Plan:
        if digest in self._plans:
            return self._plans[digest]
        source = await catalog.source(self._bus, source_of(digest))
        async with self._compiling:
            if digest not in self._plans:
                self._plans[digest] = await _made(digest, source)
        plan = self._plans[digest]
        if len(self._plans) > MAX_PLANS:
            self._plans.popitem(last=False)
        return plan


async def _made(digest: str, source: bytes) -> Plan:
    """A large one takes longer than others should wait. All the compiler keeps are caches that threads may share."""
    edition = edition_of(digest)
    if edition > EDITION:  # decided by the rules of this build it would go another way than it began
        raise Corrupt(f"it goes by edition {edition} of the language; this build knows up to {EDITION}: upgrade it")
    if len(source) > LARGE_CHARS:
        compiled = await asyncio.to_thread(_compiled, source, edition)
    else:
        compiled = _compiled(source, edition)
    if compiled.plan is None:
        raise Corrupt(f"the registered playbook {digest[:12]}… does not compile: {compiled.diagnostics[0]}")
    return compiled.plan


def _compiled(source: bytes, edition: int) -> Compiled:
    compiled = compile_playbook(source, kinds=registry.specs(), edition=edition)
    if compiled.plan is not None:
        _warm(compiled.plan)
    return compiled


def _warm(plan: Plan) -> None:
    """Makes the code of its long templates: many at once, within one decision, would hold up everyone."""
    for text, _ in strings([plan.workload, *map(_decided, plan.steps.values())], ()):
        if len(text) > LONG_CHARS and is_template(text):
            with suppress(TemplateError):
                code_of(text)


def _decided(step: Step) -> list[Any]:
    """What the router and the scheduler evaluate of it."""
    arcs = [[arc.when, arc.args] for arc in step.arcs]
    loop = step.loop
    looped = [[level.items for level in loop.levels], loop.stop_when, loop.set_ctx] if loop is not None else []
    return [arcs, [rule.when for rule in step.admit], looped]
