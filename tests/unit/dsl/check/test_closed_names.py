"""Names of which all are known: a mistyped one is told, where a condition on it would never hold."""

import pytest

from shared.dsl.compile import compile_playbook
from shared.dsl.documents.compile import compile_document
from shared.tools import registry
from tests.support.playbooks import head

HTTP = "kind: http, url: 'http://x'"


def told(workflow: str) -> list[tuple[str, str]]:
    found = compile_playbook(head("t") + "workflow:\n" + workflow, kinds=registry.specs(), programs=True)
    return [(each.code, each.fix) for each in found.diagnostics]


def ruled(when: str) -> str:
    return (f"  - {{step: start, tool: {{{HTTP}, spec: {{policy: {{rules: [{{when: \"{{{{ {when} }}}}\", then: "
            "{do: fail}}, {else: {then: {do: continue}}}]}}}}\n")


def led(when: str) -> str:
    return (f"  - {{step: start, tool: {{{HTTP}}}, next: {{arcs: [{{step: a, when: \"{{{{ {when} }}}}\"}}, "
            "{step: a}]}}\n"
            "  - {step: a, tool: {kind: noop}}\n")


def cased(when: str) -> str:
    return (f"  - {{step: start, tool: {{{HTTP}}}, case: [{{when: \"{{{{ {when} }}}}\", then: {{next: a}}}}], "
            "next: a}\n"
            "  - {step: a, tool: {kind: noop}}\n")


@pytest.mark.parametrize(("workflow", "code", "fix"), [
    (ruled("outcome.status == 'eror'"), "DSL921", "did you mean error?"),
    (ruled("outcome.status in ['error', 'failed']"), "DSL921", "one of: error, ok"),
    (ruled("outcome.https.status == 404"), "DSL911", "did you mean http?"),
    (ruled("outcome.err"), "DSL911", "one of: error, http, meta, pg, py, result, status"),
    (led("event.nam == 'step.done'"), "DSL911", "did you mean name?"),
    (cased("event.name == 'call.dne'"), "DSL921", "did you mean call.done?"),
    (cased("event.name in ['call.err', 'call.done']"), "DSL921", "did you mean call.error?"),
    (f"  - {{step: start, tool: {{{HTTP}}}, retry: {{stop_when: \"{{{{ reslt.state == 'x' }}}}\"}}}}\n", "DSL910",
     "did you mean result?"),
    (f"  - {{step: start, tool: {{{HTTP}}}, retry: {{retry_when: \"{{{{ status == 503 }}}}\"}}}}\n", "DSL910",
     "did you mean status_code?"),
    ("  - {step: start, tool: {kind: noop}, vrs: {a: 1}}\n", "DSL201", "did you mean vars?"),
])
def test_a_mistyped_name_is_told(workflow: str, code: str, fix: str) -> None:
    assert (code, fix) in told(workflow)


@pytest.mark.parametrize("workflow", [
    ruled("outcome.status == 'error' and outcome.http.status == 404"), ruled("outcome.meta.attempt > 1 or outcome.py"),
    led("event.name == 'tool.processed' and event.payload.result"), led("'failed' in event.name or event.error"),
    cased("event.name == 'step.finished' and response.status_code == 404"), cased("event.name == 'ToolErrored'"),
    led("event.name == 'call.error' and event.error.message == 'eror'"), ruled("outcome.result.state == 'eror'"),
])
def test_a_name_that_is_there_is_not(workflow: str) -> None:
    assert not [each for each in told(workflow) if each[0] in ("DSL910", "DSL911", "DSL921")]


@pytest.mark.parametrize("tool", [
    "{kind: noop, args: {'{{ k }}': 1}}", "{kind: http, url: 'http://x', headers: {'X-{{ k }}': 1}}",
    "{kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {'k{{ n }}': 1}}}}]}}}",
])
def test_a_template_as_a_key_is_told(tool: str) -> None:
    assert [code for code, _ in told(f"  - {{step: start, tool: {tool}}}\n")] == ["DSL903"]


@pytest.mark.parametrize(("tool", "says"), [
    ("{kind: wait, for: 1 fortnight}", "not a time"), ("{kind: wait, until: tomorrow}", "RFC 3339"),
    ("{kind: signal, signal: a, schema: {type: objekt}}", "objekt"), ("{kind: signal, signal: a b}", "not a name"),
    ("{kind: http, url: 'http://x', method: GTE}", "GTE"),
])
def test_a_literal_that_can_never_work_is_told_to_authors(tool: str, says: str) -> None:
    source = head("t") + f"workflow:\n  - {{step: start, tool: {tool}}}\n"
    (found,) = compile_playbook(source, kinds=registry.specs(), programs=True).diagnostics
    assert (found.code, says in found.message) == ("DSL204", True)
    assert compile_playbook(source, kinds=registry.specs()).plan is not None  # one that has begun goes on


@pytest.mark.parametrize("tool", [
    "{kind: wait, for: 1h30m}", "{kind: wait, for: 5}", "{kind: wait, until: '2027-01-01T08:00:00+01:00'}",
    "{kind: wait, for: '{{ workload.pause }}'}", "{kind: http, url: 'http://x', method: post}",
    "{kind: http, url: 'http://x', method: '{{ workload.m }}'}", "{kind: signal, signal: a.b, schema: {type: object}}",
])
def test_one_that_can_is_not(tool: str) -> None:
    assert told(f"  - {{step: start, tool: {tool}}}\n") == []


@pytest.mark.parametrize(("kind", "spec", "fix"), [
    ("Trigger", "{subject: a.b, filter: \"{{ message.dat.total > 3 }}\", playbook: {path: x}}",
     "data, headers, subject"),
    ("Schedule", "{cron: '* * * * *', playbook: {path: x, payload: {at: \"{{ schedule.locl }}\"}}}", "local, name"),
])
def test_fields_of_messages_and_schedules_are_told(kind: str, spec: str, fix: str) -> None:
    source = f"apiVersion: noetl.io/v2\nkind: {kind}\nmetadata: {{name: t}}\nspec: {spec}\n"
    found = compile_document(source, kind=kind).diagnostics
    assert [(each.code, fix in each.fix) for each in found] == [("DSL911", True)]


@pytest.mark.parametrize(("tool", "codes"), [
    ("kind: http, method: FETCH", ["DSL202", "DSL204"]),
    ("kind: wait, for: 1 fortnight, nope: 1", ["DSL201", "DSL204"]),
    ("kind: signal, schema: {type: objekt}", ["DSL202", "DSL204"]),
    ("kind: signal, signal: go, schema: 5", ["DSL204"]),
    ("kind: python, code: 'return (', args: 5", ["DSL203", "DSL415"]),
])
def test_a_literal_that_can_never_work_is_told_beside_another_mistake(tool: str, codes: list[str]) -> None:
    assert sorted(code for code, _ in told(f"  - {{step: start, tool: {{{tool}}}}}\n")) == codes


@pytest.mark.parametrize(
    "tool", ["[3]", "text", "[{kind: http}, 4, {kind: http, method: FETCH}]", "[{fetch: 3}]", "{}"])
def test_what_is_no_task_is_no_riddle(tool: str) -> None:
    assert told(f"  - {{step: start, tool: {tool}}}\n")
