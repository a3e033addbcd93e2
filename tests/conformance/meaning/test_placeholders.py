"""What the documents leave for later is refused with the words for it, and never ignored (V10 §3, §5, §8, §10)."""

import pytest

from shared.dsl.compile import compile_playbook
from shared.tools import registry
from tests.conformance.stand.lab import playbook

RULES = "rules: [{else: {then: {do: continue}}}]"
RESOURCES = "executor: {kind: distributed, spec: {policy: {defaults: {resources: {cpu: 1}}}}}\n"


def step(spec: str = "", loop: str = "", tool: str = "{kind: noop}", following: str = "") -> str:
    parts = [f"spec: {{policy: {{{spec}}}}}" if spec else "", f"tool: {tool}", following]
    parts.append(f"loop: {{in: [1], iterator: n, spec: {{policy: {{{loop}}}}}}}" if loop else "")
    return playbook(f"- {{step: start, {', '.join(part for part in parts if part)}}}")


def task(policy: str) -> str:
    return step(tool=f"{{kind: noop, spec: {{policy: {{{policy}, {RULES}}}}}}}")


@pytest.mark.parametrize(("source", "code", "says"), [
    pytest.param(step("emit: {events: [step.done]}"), "DSL701", "emit", id="emit"),
    pytest.param(step("tracing: {level: 1}"), "DSL701", "tracing", id="tracing"),
    pytest.param(step("quotas: {calls: 1}"), "DSL701", "quotas", id="quotas"),
    pytest.param(step(loop="ordering: strict"), "DSL701", "ordering", id="ordering"),
    pytest.param(step(loop="reducers: {n: sum}"), "DSL701", "reducers", id="reducers"),
    pytest.param(step(loop="backpressure: 5"), "DSL701", "backpressure", id="backpressure"),
    pytest.param(step(loop="partitioning: key"), "DSL701", "partitioning", id="partitioning"),
    pytest.param(task("before: [{kind: noop}]"), "DSL701", "before hooks", id="before"),
    pytest.param(task("after: [{kind: noop}]"), "DSL701", "after hooks", id="after"),
    pytest.param(task("finally: [{kind: noop}]"), "DSL701", "finally hooks", id="finally"),
    pytest.param(task("mode: inclusive"), "DSL204", "mode", id="inclusive rules"),
    pytest.param(task("on_unmatched: fail"), "DSL204", "on_unmatched", id="on_unmatched"),
    pytest.param(step(following="next: {spec: {policy: {priority: 1}}, arcs: [{step: start}]}"), "DSL701",
                 "routing hints", id="routing hints"),
    pytest.param(step(following="next: {arcs: [{step: start, spec: {weight: 1}}]}"), "DSL701", "spec on an arc",
                 id="arc spec"),
    pytest.param(playbook("- {step: start, tool: {kind: noop}}", root=RESOURCES), "DSL701", "resources",
                 id="resources"),
    pytest.param(step(tool="{kind: loop}"), "DSL405", "loop", id="loop as a kind"),
    pytest.param(step(tool="{kind: sink}"), "DSL405", "sink", id="sink as a kind"),
])
def test_what_may_come_later_is_refused(source: str, code: str, says: str) -> None:
    compiled = compile_playbook(source, kinds=registry.specs())
    assert compiled.plan is None
    (found,) = [each for each in compiled.diagnostics if each.severity == "error"]
    assert (found.code, says in found.message, bool(found.fix)) == (code, True, True)
