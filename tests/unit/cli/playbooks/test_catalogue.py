"""Which playbooks would miss another one."""

from services.cli.playbooks import catalogue
from shared.dsl.compile import compile_playbook
from shared.runtime.stores import catalog
from shared.tools import registry
from tests.support.memory_bus import memory_bus
from tests.support.playbooks import head

CALLS = "workflow:\n  - {step: start, tool: {kind: playbook, path: a/told}}\n"
PLAIN = "workflow:\n  - {step: start, tool: {kind: noop}}\n"
TELLS = "executor: {spec: {policy: {notify: {playbook: {path: a/told}}}}}\n" + PLAIN


async def test_those_that_call_it_or_tell_it_of_their_end_are_its_callers() -> None:
    bus = memory_bus()
    for path, text in (("a/calls", CALLS), ("a/tells", TELLS), ("a/told", PLAIN), ("a/former", CALLS),
                       ("a/former", PLAIN)):
        source = (head(path.rpartition("/")[2], path) + text).encode()
        compiled = compile_playbook(source, kinds=registry.specs())
        assert compiled.plan is not None, compiled.diagnostics
        await catalog.register(bus, source, compiled.plan)
    assert sorted(await catalogue.callers(bus, "a/told")) == ["a/calls", "a/tells"]
