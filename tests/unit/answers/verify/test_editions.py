"""A history goes by the edition of the language it began with (ADR 32).

`first-edition` was recorded by the services before there was a second one. In it an arc without a word about failures
takes one, `else` takes what was tried too often, a best-effort loop is done though every iteration failed, two
undefined values differ, and an undefined condition fails the execution. `second-edition` was recorded before there was
a third: one rule of a `case` acts, `step.exit` is a success, `vars` of a loop are those of its iterations, a workbook
task's own args win, and admission sees no event. `third-edition` was recorded before there was a fourth: a rule sees no
response of a failed call, an iterator gives way to `vars` of its name, a single task that waits is called `task_0`, and
the failure of a sink does not name it.
"""

from pathlib import Path

import msgspec
import pytest

from shared.answers.verify.verify import verify
from shared.dsl.compile import compile_playbook
from shared.dsl.model.edition import EDITION, edition_of, plan_name, source_of
from shared.dsl.model.plan import Plan
from shared.engine.pipeline.call import rendered
from shared.engine.routing import decide as routing
from shared.engine.routing.state import Execution, evolve
from shared.engine.routing.workload import merge_workload
from shared.engine.scheduling import decide as scheduling
from shared.engine.scheduling import state as schedule
from shared.events import model as ev
from shared.events.record import Record
from shared.events.stamp import seconds
from shared.tools import registry

FOLDER = Path(__file__).parent / "recorded"
STEPS = {
    "first": ["start", "asked", "each", "last"],
    "second": ["start", "each", "gate", "breaks", "last"],
    "third": ["start", "each", "pause", "breaks", "stores", "last"],
}
EDITIONS = pytest.mark.parametrize("edition", STEPS)


class Recorded:
    """A history of an edition, and its playbook."""

    def __init__(self, edition: str) -> None:
        self.book = (FOLDER / f"{edition}-edition.yaml").read_bytes()
        lines = (FOLDER / f"{edition}-edition.jsonl").read_bytes().splitlines()
        self.entries = [msgspec.json.decode(line, type=tuple[int, Record]) for line in lines]
        self.execution_id = self.entries[0][1].execution_id

    def plan(self, name: str) -> Plan:
        plan = compile_playbook(self.book, kinds=registry.specs(), edition=edition_of(name)).plan
        assert plan is not None
        assert plan.digest == name
        return plan

    def decided(self, writer: str, before: list[tuple[int, Record]], now: float) -> tuple[ev.Event, ...]:
        if writer == "scheduler":
            state = schedule.evolve(schedule.Schedule(self.execution_id), before)
            return tuple(scheduling.decide(self.plan, state, now))
        execution = Execution(self.execution_id)
        for seq, record in before:
            execution = evolve(execution, record, seq)
        return tuple(routing.decide(self.plan(execution.digest), execution, now))


@EDITIONS
def test_a_history_of_an_earlier_edition_follows_from_its_rules(edition: str) -> None:
    recorded = Recorded(edition)
    assert verify(recorded.execution_id, recorded.entries, recorded.plan) == []
    events = [event for _, record in recorded.entries for event in record.events]
    assert [event.step for event in events if isinstance(event, ev.StepScheduled)] == STEPS[edition]


@EDITIONS
def test_by_the_rules_of_today_it_would_not(edition: str) -> None:
    recorded = Recorded(edition)
    today = lambda name: recorded.plan(plan_name(source_of(name)))  # noqa: E731  # a lookup of plans
    found = verify(recorded.execution_id, recorded.entries, today)
    assert "decision" in {each.rule for each in found}


@EDITIONS
@pytest.mark.parametrize("writer", ["router", "scheduler"])
def test_services_of_today_go_on_with_it_as_those_did_who_began(edition: str, writer: str) -> None:
    """Taken over anywhere in the middle: the next decision is the one that was made."""
    recorded = Recorded(edition)
    entries = recorded.entries
    own = [at for at, (_, record) in enumerate(entries) if record.writer == writer][writer == "router":]
    assert own
    for at in own:
        record = entries[at][1]
        before = [(seq, each) for seq, each in entries[:at] if seq <= record.as_of or each.writer == writer]
        assert recorded.decided(writer, before, seconds(record.ts)) == record.events


def test_the_log_names_a_plan_by_its_source_and_its_edition() -> None:
    digest = "ab" * 32
    assert (plan_name(digest), plan_name(digest, 1)) == (f"{digest}@{EDITION}", digest)
    assert [source_of(name) for name in (digest, f"{digest}@2")] == [digest, digest]
    assert [edition_of(name) for name in (digest, f"{digest}@2", f"{digest}@12")] == [1, 2, 12]


def test_a_program_of_the_first_edition_is_handed_over_as_plain_text() -> None:
    book = b"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: x}
workflow:
  - {step: start, tool: {kind: python, code: "result = '{{' + '}}'", args: {a: "{{ 1 + 1 }}"}}}
"""
    plan = compile_playbook(book, kinds=registry.specs(), edition=1).plan
    assert plan is not None
    (task,) = plan.steps["start"].tasks
    asked = rendered(task, registry.specs()["python"].keys, {})
    assert msgspec.json.decode(msgspec.json.encode(asked.config))["args"] == {"a": 2}


def test_before_the_third_edition_a_workload_saw_the_texts_of_its_templates() -> None:
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\n"
    book = head + 'workload: {b: "{{ a }}", a: "{{ 1 }}"}\nworkflow: [{step: start, tool: {kind: noop}}]\n'
    plans = [compile_playbook(book, kinds=registry.specs(), edition=edition).plan for edition in (1, 2, 3)]
    found = [merge_workload(plan, {}, "x", "2026-01-01T00:00:00.000000Z") for plan in plans if plan is not None]
    assert found == [{"b": "{{ 1 }}", "a": 1}, {"b": "{{ 1 }}", "a": 1}, {"b": 1, "a": 1}]
