"""What rules and the log know about a call beside what it gave: `outcome.meta` (DSL2 §5.3)."""

from shared.answers.rehearsal.types import Answered, Need, Took
from shared.events import model as ev
from shared.events.outcome import failed, ok
from shared.events.record import envelopes
from shared.events.stamp import seconds
from tests.unit.answers.rehearsal.test_rehearsal import play
from tests.unit.engine.support import plan_of

WORKFLOW = """
- step: start
  tool:
    kind: python
    code: result = 1
    spec:
      policy:
        rules:
          - {when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 2}}
          - else: {then: {do: continue, set_ctx: {meta: "{{ outcome.meta }}"}}}
"""


def second_try(need: Need) -> Answered:
    return Took(failed("broken", "no") if need.attempt == 1 else ok(1), 0.25)


def test_a_call_says_its_attempt_its_times_and_its_trace() -> None:
    found = play(plan_of(WORKFLOW), second_try)
    meta = dict(found.state.ctx["meta"])
    started, ended = seconds(meta.pop("started_at")), seconds(meta.pop("ended_at"))
    assert round(ended - started, 3) == 0.25
    (trace,) = {each["trace_id"] for _, record in found.entries for each in envelopes(record)}
    assert meta == {"attempt": 2, "duration_s": 0.25, "trace_id": trace}


def test_the_log_has_them_for_every_attempt() -> None:
    """But for the trace, which is on every event."""
    found = play(plan_of(WORKFLOW), second_try)
    metas = [event.outcome.meta for _, record in found.entries for event in record.events
             if isinstance(event, ev.TaskDone | ev.TaskRetried)]
    assert [(meta["attempt"], meta["duration_s"]) for meta in metas] == [(1, 0.25), (2, 0.25)]
    assert metas[0]["ended_at"] <= metas[1]["started_at"]
