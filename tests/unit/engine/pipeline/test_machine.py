"""What the machine of a lease asks for, and in which order: the effects are the promise."""

from typing import Any

import pytest

from shared.engine.pipeline import effects as ef
from shared.engine.pipeline.history import History, accept
from shared.engine.pipeline.machine import IN_A_ROW
from shared.engine.pipeline.ownership import Fenced
from shared.engine.values.stored_values import Unstorable
from shared.errors import Unavailable
from shared.events import model as ev
from shared.events.outcome import failed, ok
from shared.events.record import Lease, Record
from shared.events.waits import Waits
from tests.unit.engine.pipeline.outside import NOOP, OURS, Outside, lease, machine_of, played

PYTHON = "- {step: start, tool: [{name: one, kind: python, code: '-'}, {name: two, kind: python, code: '-'}]}"
READS = """
- step: start
  tool:
    - {name: one, kind: python, code: "-"}
    - {name: look, kind: http, url: "http://x/"}
    - {name: sum, kind: noop}
    - {name: again, kind: http, url: "http://x/"}
    - {name: two, kind: python, code: "-"}
"""
RETRY = """
- step: start
  tool:
    name: one
    kind: python
    code: "-"
    spec: {policy: {rules: [{else: {then: {do: retry, attempts: 9, delay: DELAY}}}]}}
"""
# -- a run ---------------------------------------------------------------------------------


def test_a_fresh_run_without_effects_is_one_record() -> None:
    outside = played(machine_of(NOOP))
    assert outside.names == ["Fresh", "Call", "Finish"]
    assert outside.said == [["StepStarted", "TaskStarted", "TaskDone", "StepDone"]]


@pytest.mark.parametrize("answers", [{"Call": (0.0, ok("seen"))}, {"Call": None, "Ended": lambda _: (0.0, ok("seen"))}])
def test_rules_patches_and_the_log_see_an_outcome_as_it_may_be_known(answers: dict[str, Any]) -> None:
    keep = "[{when: \"{{ outcome.result == 'seen' }}\", then: {do: continue, set_ctx: {kept: '{{ outcome.result }}'}}}]"
    machine = machine_of(f"- {{step: start, tool: [{{name: t, kind: noop, spec: {{policy: {{rules: {keep}}}}}}}]}}")
    outside = played(machine, **answers)
    (done,) = [event for record in outside.records for event in record if isinstance(event, ev.TaskDone)]
    assert (done.outcome.result, done.set_ctx) == ("seen", {"kept": "seen"})


def test_an_effect_is_in_the_log_before_the_next_one_starts() -> None:
    outside = played(machine_of(PYTHON))
    asked = ["TakeTurn", "Stay", "Now", "Stay", "Call"]
    assert outside.names == ["Fresh", "TakeTurn", "Now", *asked, "Send", "Flush", *asked, "Finish"]
    assert outside.said[0] == ["StepStarted", "TaskStarted", "TaskDone"]


def test_a_call_that_only_reads_waits_for_nothing_to_be_in_the_log_and_an_effect_after_it_for_all() -> None:
    outside = played(machine_of(READS))
    order = [effect.task.name if isinstance(effect, ef.Call) else type(effect).__name__
             for effect in outside.asked if isinstance(effect, ef.Call | ef.Send | ef.Flush | ef.Finish)]
    assert order == ["one", "Send", "look", "Send", "sum", "again", "Send", "Flush", "two", "Finish"]


@pytest.mark.parametrize("task", [
    "{name: again, kind: http, method: POST, url: 'http://x/'}",
    "{name: again, kind: http, url: 'http://x/', spec: {read_only: false}}",
])
def test_a_call_that_may_have_an_effect_waits_for_what_was_read_before_it(task: str) -> None:
    outside = played(machine_of(READS.replace('{name: again, kind: http, url: "http://x/"}', task)))
    calls = [k for k, effect in enumerate(outside.asked) if isinstance(effect, ef.Call) and effect.task.name == "again"]
    flushes = [k for k, effect in enumerate(outside.asked) if isinstance(effect, ef.Flush)]
    assert flushes[0] < calls[0]


def test_tasks_without_effects_are_written_after_some_of_them() -> None:
    rules = "[{when: '{{ _attempt < 0 }}', then: {do: break}}, {else: {then: {do: jump, to: t}}}]"
    machine = machine_of(f"- {{step: start, tool: [{{name: t, kind: noop, spec: {{policy: {{rules: {rules}}}}}}}]}}")
    steps, calls = machine.run(), 0
    outside = Outside(machine)
    effect = next(steps)
    while not isinstance(effect, ef.Flush):
        calls += isinstance(effect, ef.Call)
        effect = steps.send(outside.answer(effect))
    assert calls == IN_A_ROW


def test_a_run_that_may_have_been_held_is_read_claimed_and_read_again() -> None:
    before = (ev.StepStarted(), ev.TaskStarted("one"), ev.TaskDone("one", 1, ok(1), "continue"))
    outside: Outside

    def read(_: ef.Effect) -> History:
        records = [Record("x1", "worker", 1, "2027-01-01T00:00:00.000000Z", before, lease=lease(1))]
        records += [Record("x1", "worker", 1, "2027-01-01T00:00:01.000000Z", found, lease=lease())
                    for found in outside.records]
        return accept(records, "start:1", -1)

    outside = Outside(machine_of(PYTHON), Fresh=None, Read=read)
    outside.drive(outside.machine.run())
    assert outside.names[:8] == ["Fresh", "Extend", "Read", "ComeUp", "Flush", "Claimed", "Read", "Now"]
    assert [effect.task.name for effect in outside.asked if isinstance(effect, ef.Call)] == ["two"]


@pytest.mark.parametrize(("known", "command_is"), [
    (History(epoch=(1, 1), over=True), "needless"), (History(epoch=(OURS + 1, 1), held=True), "needless"),
    (History(epoch=(OURS, 2), held=True), "held"), (History(epoch=(OURS, 2)), "idle"),
    (History(epoch=(OURS + 1, 1)), "needless"),
])
def test_a_run_that_is_over_or_anothers_is_left_without_a_word(known: History, command_is: str) -> None:
    outside = Outside(machine_of(NOOP), Fresh=None, Read=known)
    with pytest.raises(Fenced) as fenced:
        outside.drive(outside.machine.run())
    assert outside.records == []
    assert (fenced.value.needless, fenced.value.idle) == (command_is == "needless", command_is == "idle")


def test_a_claim_that_the_log_does_not_show_is_tried_again_later() -> None:
    outside = Outside(machine_of(NOOP), Fresh=None, Read=History())
    with pytest.raises(Unavailable):
        outside.drive(outside.machine.run())


def test_a_claim_ends_a_run_that_has_lost_too_many_leases() -> None:
    records = [Record("x1", "worker", 1, f"2027-01-01T00:00:0{epoch}.000000Z", (ev.StepStarted(),),
                      lease=Lease("start:1", "start", (epoch, 1), "w", -1, "default")) for epoch in (2, 3, 4, OURS)]
    outside = played(machine_of(NOOP), Fresh=None, Read=accept(records, "start:1", -1))
    assert outside.said == [["StepStarted"], ["StepFailed"]]
    assert "Call" not in outside.names


def test_a_step_that_may_lose_no_lease_is_claimed_though_it_is_fresh() -> None:
    once = "- {step: start, spec: {policy: {lifecycle: {max_leases: 1}}}, tool: {kind: noop}}"
    outside = played(machine_of(once), Read=History(epoch=(OURS, 1)))
    assert outside.names[:4] == ["Extend", "Read", "ComeUp", "Flush"]


def test_a_task_that_waits_ends_the_lease_with_a_wait() -> None:
    outside = played(machine_of(PYTHON), Call=Waits(for_s=60.0))
    assert outside.names[-3:] == ["Now", "Stay", "Park"]
    assert (outside.said[-1][-1], outside.writers[-1], outside.machine.notes.over) == ("TaskWaiting", "waiting", True)


@pytest.mark.parametrize(("delay", "before", "ends"), [
    (1, None, ["Now", "Flush", "Sleep"]),
    (60, None, ["Now", "Stay", "Park"]),
    (60, History(), ["Now", "Flush", "Sleep"]),
])
def test_a_long_pause_is_spent_without_a_worker_unless_a_loop_holds_the_run(
    delay: int, before: History | None, ends: list[str]
) -> None:
    machine = machine_of(RETRY.replace("DELAY", str(delay)), before)
    outside, steps = Outside(machine, Call=failed("x", "no")), machine.run()
    effect = next(steps)
    while not isinstance(effect, ef.Sleep | ef.Park):
        outside.asked.append(effect)
        effect = steps.send(outside.answer(effect))
    assert [*outside.names, type(effect).__name__][-3:] == ends


@pytest.mark.parametrize(("limits", "message"), [
    ({}, "spec.timeout"), ({"deadline": "2027-01-15T08:00:10.000000Z"}, "the step is over its time"),
    ({"deadline": "2027-01-15T08:00:10.000000Z", "due_by": "deadline_s"}, "lifecycle.deadline_s (20 s)"),
    ({"deadline": "2027-01-15T08:00:10.000000Z", "due_by": "execution_s"}, "timeouts.execution_s of the executor"),
    ({"deadline": "2027-01-15T08:00:10.000000Z", "due_by": "timeout_s", "index": 0}, "lifecycle.timeout_s (30 s)"),
    ({"deadline": "2027-01-15T09:00:10.000000Z", "due_by": "deadline_s"}, "lifecycle.timeout_s (30 s)"),
])
def test_a_call_without_an_answer_is_over_by_its_own_time_or_the_runs(limits: dict[str, Any], message: str) -> None:
    lifecycle = "spec: {policy: {lifecycle: {timeout_s: 30, deadline_s: 20}}}"
    timed = PYTHON.replace("{step: start,", "{step: start, " + lifecycle + ",")
    outside = played(machine_of(timed if limits else PYTHON, **limits), Call=None)
    assert message in outside.machine.ended.error["message"]


@pytest.mark.parametrize("asked", ["Send", "Flush"])
def test_a_record_that_cannot_be_written_fails_the_run_wherever_it_is(asked: str) -> None:
    machine = machine_of(PYTHON)
    outside = Outside(machine)
    refused: list[Any] = []

    def refuse(_: ef.Effect) -> None:
        if refused:
            return outside.write()
        refused.append(machine.notes.take())
        raise Unstorable("a record of many bytes")

    outside.answers[asked] = refuse
    outside.drive(machine.run())
    assert refused
    assert [record[-1] for record in outside.said] == [*(["TaskDone"] if asked == "Flush" else []), "StepFailed"]


def test_a_run_that_is_told_to_stop_says_so_once() -> None:
    machine = machine_of(PYTHON)
    steps, outside = machine.run(), Outside(machine)
    effect = next(steps)
    while not isinstance(effect, ef.Call):
        effect = steps.send(outside.answer(effect))
    steps.close()
    for _ in range(2):
        outside.drive(machine.stopped())
    assert outside.said == [["StepStarted", "StepFailed"]]
