"""Waits: each is ended once, after it began, and a child's end is what its task answers with."""

from collections.abc import Iterable

from shared.answers.history.history import History, Key, Violation
from shared.events import model as ev


def check_waits(history: History) -> Iterable[Violation]:
    begun: dict[tuple[Key, str], int] = {}
    for key, seq, waiting in _reports(history):
        begun.setdefault((key, waiting.wait), seq)
    ended: set[tuple[Key, str]] = set()
    for seq, record, event in history.events("scheduler"):
        if not isinstance(event, ev.TaskResumed):
            continue
        at = (Key(event.run_id, event.index), event.wait)
        if at in ended:
            yield Violation("wait", f"the wait {event.wait} of {at[0]} is over twice", seq)
        ended.add(at)
        if at not in begun or begun[at] > record.as_of:
            yield Violation("wait", f"the wait {event.wait} of {at[0]} is over, but never began", seq)


def _reports(history: History) -> Iterable[tuple[Key, int, ev.TaskWaiting]]:
    """Also those of workers that had lost the run: the scheduler need not know that they had."""
    for seq, record, event in history.events("waiting"):
        if isinstance(event, ev.TaskWaiting) and record.lease is not None:
            yield Key(record.lease.run_id, record.lease.index), seq, event
