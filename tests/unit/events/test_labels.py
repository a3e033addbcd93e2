"""Labels: of the playbook, then of the request, recorded with it and checked wherever they come from."""

import pytest

from shared.dsl.compile import compile_playbook
from shared.dsl.documents.compile import compile_document
from shared.dsl.documents.schedules import Schedule
from shared.dsl.model.plan import Plan
from shared.engine.automation import schedules as automation_schedules
from shared.engine.routing import decide as routing
from shared.errors import Corrupt
from shared.events import labels
from shared.events import model as ev
from shared.events.bounds import MAX_REQUEST_BY as MAX_BY
from shared.events.request import Request, decode
from shared.tools import registry

SOURCE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: x, labels: %s}
workflow: [{step: start, tool: {kind: noop}}]
"""
SCHEDULE = """\
apiVersion: noetl.io/v2
kind: Schedule
metadata: {name: nightly, labels: {team: data}}
spec: {playbook: {path: a/b}, every: 1h}
"""


def plan(text: str) -> Plan:
    found = compile_playbook(SOURCE % text, kinds=registry.specs()).plan
    assert found is not None
    return found


def test_labels_of_a_playbook_are_text() -> None:
    assert plan("{team: data, live: true, n: 1}").labels == {"team": "data", "live": "true", "n": "1"}


@pytest.mark.parametrize(
    ("text", "code"),
    [("{a: [1]}", "DSL203"), ("{a: 'x,y'}", "DSL203"), ("{a: null}", "DSL203"), ("{'a b': 1}", "DSL205"),
     ("{-a: 1}", "DSL205"), (str({f"k{n}": "v" for n in range(33)}), "DSL801")],
)
def test_a_label_that_cannot_be_selected_by_is_an_error(text: str, code: str) -> None:
    compiled = compile_playbook(SOURCE % text, kinds=registry.specs())
    assert (compiled.plan, [each.code for each in compiled.diagnostics]) == (None, [code])


def test_an_execution_has_the_labels_of_its_playbook_and_of_its_request() -> None:
    request = Request("x", labels={"team": "ops", "run": "1"}, by="ada@host")
    requested = routing.start("e1", request, "", plan("{team: data, tier: gold}"), 0.0)[0]
    assert isinstance(requested, ev.ExecutionRequested)
    assert requested.labels == {"team": "ops", "tier": "gold", "run": "1"}
    assert requested.by == "ada@host"


def test_a_refused_request_keeps_its_own() -> None:
    requested = routing.start("e1", Request("x", labels={"a": "b"}), "", "not registered", 0.0)[0]
    assert isinstance(requested, ev.ExecutionRequested)
    assert requested.labels == {"a": "b"}


def test_executions_of_a_schedule_have_its_labels() -> None:
    document = compile_document(SCHEDULE, kind="Schedule").document
    assert isinstance(document, Schedule)
    request = automation_schedules.request(document, 0)
    assert (request.labels, request.by) == ({"team": "data"}, "schedule nightly")


@pytest.mark.parametrize(
    ("body", "says"),
    [(b'{"path": "a", "labels": {"a b": "c"}}', "not a name"), (b'{"path": "a", "labels": {"a": "(c)"}}', "cannot be"),
     (b'{"path": "a", "labels": {"a": 1}}', "must be JSON like"),
     (b'{"path": "a", "by": "' + b"x" * (MAX_BY + 1) + b'"}', "the limit is 256")],
)
def test_labels_of_a_request_that_cannot_be_used_refuse_it(body: bytes, says: str) -> None:
    with pytest.raises(Corrupt, match=says):
        decode(body)


def test_the_limits_are_said() -> None:
    assert labels.wrong({"a": "x" * labels.MAX_VALUE}) == ""
    assert "cannot be used" in labels.wrong({"a": "x" * (labels.MAX_VALUE + 1)})
    assert "over the limit of 32" in labels.wrong({f"k{n}": "" for n in range(33)})
