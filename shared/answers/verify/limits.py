"""No worker has a run before it holds the place it waits for."""

from collections.abc import Iterable

from shared.answers.history.history import History, Key, Violation
from shared.events import model as ev

EXECUTION = Key("")


def check_limits(history: History) -> Iterable[Violation]:
    granted: dict[Key, int] = {}
    for seq, _, event in history.events("control"):
        if isinstance(event, ev.LimitGranted):
            granted.setdefault(Key(event.run_id, event.index), seq)
    gated = any(isinstance(e, ev.PlaybookStarted) and e.limit is not None for _, _, e in history.events("router"))
    for key, held in history.held.items():
        if not held.kept:
            continue
        began = held.kept[0][0]
        scheduled = history.scheduled.get(key.run_id)
        if gated and granted.get(EXECUTION, began) >= began:
            yield Violation("limit", f"{key} runs before the execution holds its place", began)
        if scheduled is not None and scheduled[1].limited and granted.get(key, began) >= began:
            yield Violation("limit", f"{key} runs before it holds its place", began)
