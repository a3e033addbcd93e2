"""Placeholders of the documents: each is refused with the clause that leaves it open and with what to write instead."""

import pytest

from shared.dsl.compile import compile_playbook
from shared.tools import registry
from tests.support.playbooks import head

RULES = "rules: [{else: {then: {do: continue}}}]"


def playbook(
    *, executor: str = "", step: str = "", loop: str = "", task: str = "", next_: str = "", arc: str = ""
) -> str:
    root = f"executor: {{spec: {{policy: {{{executor}}}}}}}\n" if executor else ""
    keys = [f"spec: {{policy: {{{step}}}}}"] if step else []
    keys += [f"loop: {{in: [1], iterator: x, spec: {{{loop}}}}}"] if loop else []
    keys += [f"next: {{{next_ + ', ' if next_ else ''}arcs: [{{step: end{', ' + arc if arc else ''}}}]}}"]
    tool = f"tool: {{kind: noop{', spec: {policy: {' + task + ', ' + RULES + '}}' if task else ''}}}"
    return f"{head('open')}{root}workflow:\n  - {{step: start, {tool}, {', '.join(keys)}}}\n  - step: end\n"


@pytest.mark.parametrize(("source", "clause", "fix"), [
    (playbook(executor="defaults: {resources: {cpu: 1}}"), "V10 §5.1", "resources on the worker pool"),
    (playbook(executor="defaults: {resources: {}}"), "V10 §5.1", "runtime: {resources: …}"),
    (playbook(executor="placement: near"), "V10 §5.1", "spec: {requires: […]}"),
    (playbook(executor="cost_model: cheap"), "V10 §5.1", "spec: {pool: …}"),
    (playbook(executor="quantum: {backend: x}"), "V10 §5.1", "spec: {pool: …}"),
    (playbook(executor="emit: {events: []}"), "V10 §5.2.2", "every event is in the log"),
    (playbook(step="emit: {events: [step.done]}"), "V10 §5.2.2", "every event is in the log"),
    (playbook(step="emit: {events: []}"), "V10 §5.2.2", "add a task of kind nats or http"),
    (playbook(step="tracing: {enabled: true}"), "V10 §5.2.2", "trace id"),
    (playbook(step="quotas: {calls: 5}"), "V10 §5.2.2", "write limits: {key: …"),
    *[(playbook(loop=written), clause, fix)
      for key, clause, fix in (
          ("reducers: {total: sum}", "V10 §5.3 and §15", "set_ctx: {total: {$add: …}}"),
          ("reducer: sum", "V10 §5.3 and §15", "set_ctx: {total: {$add: …}}"),
          ("backpressure: {max: 5}", "V10 §5.3", "max_in_flight"),
          ("partitioning: {by: x}", "V10 §5.3", "limits: {key:"),
          ("partition: x", "V10 §5.3", "limits: {key:"), ("ordering: strict", "V10 §5.3", "mode: sequential"),
      ) for written in (key, f"policy: {{{key}}}")],
    (playbook(task="mode: inclusive"), "V10 §5.4", "mode: exclusive"),
    (playbook(task="on_unmatched: fail"), "V10 §5.4", "- else: {then: {do: fail}}"),
    (playbook(task="on_unmatched: retry"), "V10 §5.4", "- else: {then: {do: fail}}"),
    (playbook(task="before: [{name: x}]"), "V10 §5.4", "a task in front of this one"),
    (playbook(task="after: [{name: x}]"), "V10 §5.4", "a task behind this one"),
    (playbook(task="finally: {set_ctx: {a: 1}}"), "V10 §5.4", "jump to it for errors too"),
    (playbook(next_="spec: {policy: {priority: 1}}"), "V10 §5.5", "executor: {spec: {policy: {priority: 0 to 9}}}"),
    (playbook(next_="spec: {policy: {dedupe: true}}"), "V10 §5.5", "join: any"),
    (playbook(next_="spec: {partitioning: x}"), "V10 §5.5", "limits: {key: …"),
    (playbook(arc="spec: {priority: 1}"), "V10 §3 and §15", "into its own spec"),
    (playbook(arc="spec: {}"), "V10 §3 and §15", "into its own spec"),
])  # fmt: skip
@pytest.mark.parametrize("strict", [False, True])
def test_a_placeholder_is_refused_with_its_clause_and_what_to_write(
    source: str, clause: str, fix: str, strict: bool
) -> None:
    compiled = compile_playbook(source, kinds=registry.specs(), strict=strict)
    (told,) = compiled.diagnostics
    assert (compiled.plan, told.code) == (None, "DSL701")
    assert f"is a placeholder in {clause}, which does not say what it does" in told.message
    assert fix in told.fix


@pytest.mark.parametrize("task", [
    "mode: exclusive", "on_unmatched: continue", "before: []", "after: []", "finally: []",
])
def test_what_the_documents_do_say_of_them_is_taken(task: str) -> None:
    assert compile_playbook(playbook(task=task), kinds=registry.specs()).diagnostics == ()


def test_an_unknown_hint_of_a_router_is_an_unknown_key() -> None:
    (told,) = compile_playbook(playbook(next_="spec: {policy: {colour: red}}"), kinds=registry.specs()).diagnostics
    assert (told.code, told.message) == ("DSL201", "unknown key 'colour' in next.spec.policy")


@pytest.mark.parametrize(("kind", "codes"), [("distributed", []), ("local", ["DSL903"]), ("cloud", ["DSL204"])])
def test_an_executor_that_is_local_is_warned_about(kind: str, codes: list[str]) -> None:
    source = f"{head('x')}executor: {{kind: {kind}}}\nworkflow: [{{step: start, tool: {{kind: noop}}}}]"
    assert [each.code for each in compile_playbook(source, kinds=registry.specs()).diagnostics] == codes
