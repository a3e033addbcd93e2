"""`executor.spec.policy.notify`, and triggers on ends: what is read, and what is refused."""

import pytest

from shared.dsl.compile import Compiled, compile_playbook
from shared.dsl.documents.compile import compile_document
from shared.dsl.documents.triggers import Trigger
from shared.dsl.model.plan import Notify
from shared.tools.registry import specs

TRIGGER = """\
apiVersion: noetl.io/v2
kind: Trigger
metadata: {name: page}
spec: {subject: "SUBJECT", MOREplaybook: {path: alerts/send}}
"""


def compiled(notify: str) -> Compiled:
    return compile_playbook(f"""\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: load}}
executor: {{spec: {{policy: {{notify: {notify}}}}}}}
workflow: [{{step: start, tool: {{kind: noop}}}}]
""".encode(), kinds=specs())


def trigger(subject: str, more: str = "") -> tuple[Trigger | None, list[str]]:
    found = compile_document(TRIGGER.replace("SUBJECT", subject).replace("MORE", more), kind="Trigger")
    document = found.document
    assert document is None or isinstance(document, Trigger)
    return document, [each.message for each in found.diagnostics]


def test_it_is_told_of_failures_unless_it_says_otherwise() -> None:
    plan = compiled("{playbook: {path: alerts/send}}").plan
    assert plan is not None
    assert plan.notify == Notify("alerts/send", payload={"end": "{{ end }}"}, ends=("failed",))


def test_ends_are_one_or_a_list() -> None:
    for given, ends in (("cancelled", ("cancelled",)), ("[failed, completed]", ("completed", "failed"))):
        plan = compiled(f"{{playbook: {{path: p, version: '2', payload: {{a: 1}}}}, ends: {given}}}").plan
        assert plan is not None
        assert plan.notify == Notify("p", "2", {"a": 1}, ends)  # type: ignore[arg-type]  # a literal in a loop


@pytest.mark.parametrize(("notify", "code", "words"), [
    ("{}", "DSL202", "notify has no playbook"),
    ("{playbook: {}}", "DSL202", "has no path"),
    ("{playbook: {path: p}, when: failed}", "DSL201", "when"),
    ("{playbook: {path: p}, ends: []}", "DSL204", "tells nobody"),
    ("{playbook: {path: p}, ends: [failde]}", "DSL204", "cannot be"),
    ('{playbook: {path: p, payload: {a: "{{ ctx.x }}"}}}', "DSL910", "ctx"),
])
def test_a_mistake_is_told(notify: str, code: str, words: str) -> None:
    found = compiled(notify)
    assert found.plan is None
    assert any(each.code == code and words in each.message for each in found.diagnostics), found.diagnostics


def test_a_trigger_may_hear_ends_which_come_from_their_stream() -> None:
    for more in ("", "stream: NOETL_ENDS, "):
        found, wrong = trigger("noetl.ends.failed.>", more)
        assert found is not None, wrong
        assert found.stream == "NOETL_ENDS"


@pytest.mark.parametrize(("subject", "more", "words"), [
    ("noetl.ends.failed.>", "stream: OTHER, ", "ends are in the stream NOETL_ENDS"),
    ("noetl.>", "", "of the engine"),
    ("noetl.requests.>", "stream: NOETL_ENDS, ", "of the engine"),
    ("orders.>", "stream: NOETL_ENDS, ", "the engine's own"),
    ("noetl.ends.a..b", "", "of the engine"),
])
def test_it_may_hear_nothing_else_of_the_engine(subject: str, more: str, words: str) -> None:
    found, wrong = trigger(subject, more)
    assert found is None
    assert any(words in each for each in wrong), wrong
