"""A history goes by the edition of the language it began with (ADR 32).

`first-edition` was recorded by the services before there was a second one. In it an arc without a word about failures
takes one, `else` takes what was tried too often, a best-effort loop is done though every iteration failed, two
undefined values differ, and an undefined condition fails the execution.
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
BOOK = (FOLDER / "first-edition.yaml").read_bytes()
ENTRIES = [msgspec.json.decode(line, type=tuple[int, Record])
           for line in (FOLDER / "first-edition.jsonl").read_bytes().splitlines()]
EXECUTION = ENTRIES[0][1].execution_id


def plan_of(name: str) -> Plan:
    plan = compile_playbook(BOOK, kinds=registry.specs(), edition=edition_of(name)).plan
    assert plan is not None
    assert plan.digest == name
    return plan


def test_a_history_of_the_first_edition_follows_from_its_rules() -> None:
    assert verify(EXECUTION, ENTRIES, plan_of) == []
    steps = [event.step for _, record in ENTRIES for event in record.events if isinstance(event, ev.StepScheduled)]
    assert steps == ["start", "asked", "each", "last"]


def test_by_the_rules_of_today_it_would_not() -> None:
    found = verify(EXECUTION, ENTRIES, lambda name: plan_of(plan_name(source_of(name))))
    assert {each.rule for each in found} == {"decision"}
    assert any("the log says loop.done" in each.message for each in found)


@pytest.mark.parametrize("writer", ["router", "scheduler"])
def test_services_of_today_go_on_with_it_as_those_did_who_began(writer: str) -> None:
    """Taken over anywhere in the middle: the next decision is the one that was made."""
    own = [at for at, (_, record) in enumerate(ENTRIES) if record.writer == writer][writer == "router":]
    assert own
    for at in own:
        record = ENTRIES[at][1]
        before = [(seq, each) for seq, each in ENTRIES[:at] if seq <= record.as_of or each.writer == writer]
        assert decided(writer, before, seconds(record.ts)) == record.events


def decided(writer: str, before: list[tuple[int, Record]], now: float) -> tuple[ev.Event, ...]:
    if writer == "scheduler":
        return tuple(scheduling.decide(plan_of, schedule.evolve(schedule.Schedule(EXECUTION), before), now))
    state = Execution(EXECUTION)
    for seq, record in before:
        state = evolve(state, record, seq)
    return tuple(routing.decide(plan_of(state.digest), state, now))


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
    found = [merge_workload(plan, {}, "x") for plan in plans if plan is not None]
    assert found == [{"b": "{{ 1 }}", "a": 1}, {"b": "{{ 1 }}", "a": 1}, {"b": 1, "a": 1}]
