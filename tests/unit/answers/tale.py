"""A history told by hand, with the time of every record."""

from typing import Any

from shared.events import model as ev
from shared.events.outcome import Outcome, failed, ok
from shared.events.record import Lease, Record, Writer
from shared.events.stamp import stamp

T0 = 1_800_000_000.0
EXECUTION = "x1"


class Tale:
    """Times are seconds from the start; numbers and `as_of` are counted as the writers do."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, Record]] = []
        self._n: dict[object, int] = {}

    def at(self, time: float, writer: Writer, *events: ev.Event, lease: Lease | None = None) -> "Tale":
        seq, stream = len(self.entries) + 1, lease or writer
        n = self._n.get(stream, 1)
        self._n[stream] = n + len(events)
        as_of = seq - 1 if lease is None else 0
        self.entries.append((seq, Record(EXECUTION, writer, n, stamp(T0 + time), events, as_of, lease)))
        return self

    def begin(self, *steps: str, loop: bool = False) -> "Tale":
        """Requested at 0, with the steps entered at once."""
        opening: list[ev.Event] = [
            ev.ExecutionRequested("tests/tale"), ev.RequestEvaluated("d1"), ev.PlaybookStarted(), ev.WorkflowStarted(),
        ]
        for k, step in enumerate(steps, 1):
            opening += [ev.TokenCreated(f"t{k}", step), entered(step, f"t{k}", loop=loop)]
        return self.at(0, "router", *opening)

    def end(self, time: float, *runs: str, status: str = "completed") -> "Tale":
        ended = [ev.NextSelected(run, run.partition(":")[0], "step.done") for run in runs]
        over = (ev.WorkflowFinished(status), ev.PlaybookProcessed(status))  # type: ignore[arg-type]  # an Ending
        return self.at(time, "router", *ended, *over)

    def work(self, time: float, held: Lease, *events: ev.Event) -> "Tale":
        return self.at(time, "worker" if held.index < 0 else "iteration", *events, lease=held)


def entered(step: str, *tokens: str, loop: bool = False, run: int = 1) -> ev.StepScheduled:
    return ev.StepScheduled(f"{step}:{run}", step, tokens, "d1", "default", loop)


def lease(run_id: str, queued: float, index: int = -1, delivery: int = 1) -> Lease:
    return Lease(run_id, run_id.partition(":")[0], (round((T0 + queued) * 1e9), delivery), f"w{delivery}", index)


def done(task: str = "work", took: float = 0.0, attempt: int = 1, **fields: Any) -> ev.TaskDone:
    return ev.TaskDone(task, attempt, timed(ok(fields.pop("result", None)), took), "continue", **fields)


def retried(task: str = "work", took: float = 0.0, attempt: int = 1, delay: float = 0.0) -> ev.TaskRetried:
    return ev.TaskRetried(task, attempt, timed(failed("broken", "no"), took), delay)


def timed(outcome: Outcome, took: float) -> Outcome:
    return Outcome(outcome.status, outcome.result, error=outcome.error, meta={"duration_s": took})
