"""Histories that real processes left when promises were broken: `verify` names each of them.

Recorded before the faults were mended. `away-…`: two workers, a step of four calls of 2.2 s, and one worker stopped for
so long as it is given the command. `forked`: a python task forked, its copy answered too, and the next execution got
that answer; its outcomes name their calls.
"""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from shared.answers.verify.verify import Violation, verify
from shared.dsl.compile import compile_playbook
from shared.dsl.model.plan import Plan
from shared.events import model as ev
from shared.events.outcome import mark
from shared.events.record import Record
from shared.tools import registry
from tests.unit.answers.histories import Entries, at, rewrite

FOLDER = Path(__file__).parent / "recorded"


def recorded(name: str) -> Entries:
    lines = (FOLDER / f"{name}.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=tuple[int, Record]) for line in lines]


def plan(name: str) -> Plan:
    found = compile_playbook((FOLDER / f"{name}.yaml").read_bytes(), kinds=registry.specs(), edition=1).plan
    assert found is not None
    return found


def verified(entries: Entries, book: str) -> list[Violation]:
    compiled = plan(book)
    return verify(entries[0][1].execution_id, entries, lambda _digest: compiled)


def of(entries: Entries, worker: str) -> list[ev.Event]:
    return [event for _, record in entries if record.lease is not None and record.lease.worker == worker
            for event in record.events]


@pytest.mark.parametrize(("name", "begun", "tasks"), [("away-12s", 13, "four"), ("away-20s", 11, "three, four")])
def test_two_workers_in_one_run_are_found(name: str, begun: int, tasks: str) -> None:
    fence, overlap = verified(recorded(name), "four")
    assert (fence.rule, fence.seq) == ("fence", begun)
    assert f"({tasks})" in fence.message
    assert overlap.rule == "overlap"
    assert "both in the same call" in overlap.message
    assert {shown.worker for shown in overlap.records} == {"worker-g", "worker-h"}


@pytest.mark.parametrize("name", ["away-12s", "away-20s"])
def test_the_same_history_is_right_if_the_worker_stops_with_the_call_in_flight(name: str) -> None:
    entries = recorded(name)
    claim = at(entries, ev.StepStarted, 1)
    late = [k for k, (_, record) in enumerate(entries)
            if k > claim and record.lease is not None and record.lease.worker == "worker-g"]
    assert len(late) >= 3
    kept = [entry for k, entry in enumerate(entries) if k not in late[1:]]
    assert sum(isinstance(event, ev.TaskDone) for event in of(kept, "worker-g")) >= 1
    assert verified(kept, "four") == []


def test_an_answer_to_another_call_is_found() -> None:
    (violation,) = verified(recorded("forked"), "echo")
    assert (violation.rule, violation.seq) == ("call", 2)
    (shown,) = violation.records
    assert (shown.worker, shown.seq) == ("worker-g", 2)
    assert f"names call {mark('forked-0/start:1/say/1')}; that of forked-1/start:1/say/1 is" in shown.says


@pytest.mark.parametrize("call", ["", mark("forked-1/start:1/say/1")])
def test_an_answer_that_names_its_call_or_none_is_right(call: str) -> None:
    def own(record: Record) -> Record:
        events = [replace(event, outcome=replace(event.outcome, call=call)) if isinstance(event, ev.TaskDone) else event
                  for event in record.events]
        return replace(record, events=tuple(events))

    entries = recorded("forked")
    assert verified(rewrite(entries, at(entries, ev.TaskDone), own), "echo") == []
