"""What loops that did not come to their end leave for a rerun: which iterations succeeded, with what, and which
did not.

An iteration that ended after its loop had failed, or was stopped, counts like the others. Its writes to ctx are carried
over, as those of the others are unless the end of the step had them.
"""

from collections.abc import Collection, Iterable, Sequence

from shared.answers.history.history import Held, Key, counted
from shared.engine.leases.lease_fit import fitting
from shared.engine.scheduling import carried_loop
from shared.engine.scheduling import state as schedule
from shared.engine.scheduling.state import Loop, Schedule
from shared.engine.values.stored_values import Values, manifest_item, value_of
from shared.errors import Corrupt
from shared.events import model as ev
from shared.events.record import Record
from shared.events.run_index import of_frame

Entry = tuple[int, Record]


def leftovers(
    execution_id: str, entries: Sequence[Entry], run_ids: Collection[str], values: Values
) -> dict[str, ev.Taken]:
    """Of the loop-runs among `run_ids` that had started; `entries` are the records of all writers."""
    loops = _at_the_end(execution_id, entries, run_ids)
    held = counted(fitting(entries)) if any(loop.claims is not None for loop in loops.values()) else {}
    applied = _applied(entries)
    return {
        run_id: _taken(execution_id, loop, held, applied.get(run_id, 0), values)
        for run_id, loop in loops.items() if loop.started is not None
    }


def _at_the_end(execution_id: str, entries: Sequence[Entry], run_ids: Collection[str]) -> dict[str, Loop]:
    """The loops after everything that was ever reported of them."""
    state, ended = Schedule(execution_id), Schedule(execution_id)
    for batch in _batches(entries):
        before = state.loops
        state = schedule.evolve(state, batch)
        for run_id in before.keys() - state.loops.keys():
            ended.stopping[run_id] = before[run_id]
        if batch[0][1].writer == "iteration":
            ended = schedule.evolve(ended, batch)
    return {run_id: loop for run_id, loop in {**state.loops, **ended.stopping}.items() if run_id in run_ids}


def _batches(entries: Iterable[Entry]) -> Iterable[list[Entry]]:
    """Reports that follow each other are folded together; a decision, which may end a loop, by itself."""
    reports: list[Entry] = []
    for entry in entries:
        if entry[1].writer == "iteration":
            reports.append(entry)
            continue
        if reports:
            yield reports
            reports = []
        yield [entry]
    if reports:
        yield reports


def _applied(entries: Iterable[Entry]) -> dict[str, int]:
    """How many of a loop's writes to ctx were applied at its end, if that was routed."""
    ends: dict[str, int] = {}
    routed: set[str] = set()
    for _, record in entries:
        for event in record.events:
            if isinstance(event, ev.StepFailed) and record.writer == "scheduler":
                ends.setdefault(event.run_id, len(event.ctx))
            elif isinstance(event, ev.NextSelected):
                routed.add(event.run_id)
    return {run_id: count for run_id, count in ends.items() if run_id in routed}


def _taken(
    execution_id: str, loop: Loop, held: dict[Key, Held], applied: int, values: Values
) -> ev.Taken:
    started = loop.started
    assert started is not None
    known = carried_loop.results(started.taken, values)
    results = [*known, *([None] * (loop.total - len(known)))]
    left = carried_loop.todo(started.taken, values)
    todo = [index for index in range(loop.total) if index in left and loop.results.get(index) is None]
    for index, result in loop.results.items():
        if index >= len(results):
            raise Corrupt(f"{execution_id}: iteration {index} of {loop.event.run_id} ran for no element")
        results[index] = manifest_item(result)
    items, ref = started.items, started.items_ref
    if loop.claims is not None:
        items, ref = _rows(loop, held, values), None
    return ev.Taken(
        of=execution_id, count=loop.total, done=loop.total - len(todo), items=items, items_ref=ref, todo=todo,
        todo_ref=None, results=results, results_ref=None, ctx=loop.patches[applied:],
    )


def _rows(loop: Loop, held: dict[Key, Held], values: Values) -> list[object]:
    """All that the loop ever claimed: its state keeps only those that may still be sent."""
    assert loop.started is not None
    assert loop.claims is not None
    started = loop.started
    rows = list(started.items if started.items_ref is None else value_of(started.items_ref, values))
    for frame in range(loop.claims.asked):
        hold = held.get(Key(loop.event.run_id, of_frame(frame)))
        event = hold.terminal if hold is not None else None
        if isinstance(event, ev.FrameClaimed):
            rows += event.rows if event.rows_ref is None else value_of(event.rows_ref, values)
    return rows
