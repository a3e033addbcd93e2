"""Which signals the tasks of a playbook can take."""

from typing import Any

import pytest

from shared.dsl.compile import compile_playbook
from shared.dsl.model.plan import Plan
from shared.engine.scheduling import planned_signals
from shared.tools import registry
from tests.support.playbooks import head


def plan(*tasks: str) -> Plan:
    names = ["start", *(f"s{number}" for number in range(1, len(tasks)))]
    steps = "".join(f"  - {{step: {name}, tool: {task}}}\n" for name, task in zip(names, tasks, strict=True))
    found = compile_playbook(head("a", "a/b") + "workflow:\n" + steps, kinds=registry.specs()).plan
    assert found is not None
    return found


GO = "{kind: signal, signal: go}"
STRICT = "{kind: signal, signal: go, schema: {type: object, required: [by]}}"
NUMBER = "{kind: signal, signal: go, schema: {type: number}}"
ANY = "{kind: signal, signal: '{{ workload.name }}'}"
NO_SCHEMA = "{kind: signal, signal: go, schema: 5}"


@pytest.mark.parametrize(("tasks", "name", "payload"), [
    ((GO,), "go", None), ((STRICT,), "go", {"by": "me"}), ((STRICT, NUMBER), "go", 3), ((STRICT, ANY), "go", 3),
    ((ANY,), "whatever", 3), ((NO_SCHEMA,), "go", 3),
])
def test_one_that_a_task_may_take_is_not_refused(tasks: tuple[str, ...], name: str, payload: Any) -> None:
    assert planned_signals.refusal(plan(*tasks), name, payload) == ""


@pytest.mark.parametrize(("tasks", "name", "payload", "said"), [
    ((GO,), "stop", None, "nothing in a/b waits for a signal 'stop' (it waits for go)"),
    (("{kind: signal, signal: approval}",), "aproval", None, "did you mean approval?"),
    (("{kind: noop}",), "go", None, "nothing in a/b waits for a signal 'go', nor for any other"),
    ((STRICT,), "go", {}, "'by' is a required property"),
    ((STRICT, NUMBER), "go", "x", "the payload does not fit what signal 'go' must have"),
])
def test_one_that_no_task_can_take_is(tasks: tuple[str, ...], name: str, payload: Any, said: str) -> None:
    assert said in planned_signals.refusal(plan(*tasks), name, payload)
