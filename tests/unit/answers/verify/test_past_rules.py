"""Histories of earlier versions, as they were recorded: what was right by the rules of its time is right."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from shared.answers.verify.verify import verify
from shared.dsl.compile import compile_playbook
from shared.dsl.model.plan import Plan
from shared.events import subjects
from shared.events.record import Kept, Record, decode
from shared.tools import registry

FILE: dict[str, Any] = msgspec.json.decode((Path(__file__).parent / "histories" / "local_loops.json").read_bytes())
RECORDED = [(when, name) for when in ("before", "local") for name in FILE[when]]


def plan_of(name: str) -> Plan:
    source = FILE["books"]["sequential" if name.endswith("-s") else "parallel"]
    plan = compile_playbook(source.encode(), kinds=registry.specs(), edition=1).plan
    assert plan is not None
    return plan


def history(when: str, name: str) -> list[tuple[int, Record]]:
    return [(seq, read(record)) for seq, record in FILE[when][name]]


def read(record: dict[str, Any]) -> Record:
    subject = subjects.event(0, record["execution_id"], record["writer"])
    return decode(Kept(subject, msgspec.json.encode(record)), 1)


def for_all_workers(when: str, name: str) -> list[tuple[int, Record]]:
    """As if its loop had been started for all workers."""
    text = msgspec.json.encode(FILE[when][name]).decode()
    was, now = '"parallel":true,"local":true', '"parallel":true'
    assert was in text
    return [(seq, read(record)) for seq, record in msgspec.json.decode(text.replace(was, now))]


def found(name: str, records: list[tuple[int, Record]], plan: Plan) -> list[str]:
    return [str(violation) for violation in verify(name, records, lambda _: plan, {})]


@pytest.mark.parametrize(("when", "name"), RECORDED)
def test_a_recorded_history_is_right(when: str, name: str) -> None:
    assert found(name, history(when, name), plan_of(name)) == []


def test_a_loop_on_one_worker_that_says_it_is_for_all_is_not_taken_for_an_old_one() -> None:
    assert found("paused", for_all_workers("local", "paused"), plan_of("paused")) != []


def test_a_loop_that_runs_on_one_worker_although_its_playbook_does_not_say_so_is_wrong() -> None:
    plan = plan_of("paused")
    loop = plan.steps["start"].loop
    assert loop is not None
    start = replace(plan.steps["start"], loop=replace(loop, local=False))
    plan = replace(plan, steps={**plan.steps, "start": start})
    (first, *_) = found("paused", history("local", "paused"), plan)
    assert "loop.started" in first
    assert found("paused", history("before", "paused"), plan) == []
