"""Compiled plans by digest: read from the catalogue once, kept while in use."""

from collections import OrderedDict

from shared.bus.ports import Bus
from shared.dsl.compile import compile_playbook
from shared.dsl.plan import Plan
from shared.errors import Corrupt
from shared.runtime import catalog
from shared.tools import registry

MAX_PLANS = 500


class PlanMissing(Exception):
    def __init__(self, digest: str) -> None:
        super().__init__(digest)
        self.digest = digest


class Plans:
    """Call it with a digest; `PlanMissing` asks for `load` first."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._plans: OrderedDict[str, Plan] = OrderedDict()

    def __call__(self, digest: str) -> Plan:
        try:
            return self._plans[digest]
        except KeyError:
            raise PlanMissing(digest) from None

    async def load(self, digest: str) -> Plan:
        if digest in self._plans:
            return self._plans[digest]
        compiled = compile_playbook(await catalog.source(self._bus, digest), kinds=registry.specs())
        if compiled.plan is None:
            raise Corrupt(f"the registered playbook {digest[:12]}… does not compile: {compiled.diagnostics[0]}")
        self._plans[digest] = compiled.plan
        if len(self._plans) > MAX_PLANS:
            self._plans.popitem(last=False)
        return compiled.plan
