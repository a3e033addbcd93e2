"""Whether the log still has the beginning of an execution. The broker deletes the oldest records of a stream that was
given a limit and told to (`discard: old`); what remains cannot be folded, and every other finding would blame the wrong
one."""

from collections.abc import Sequence

from shared.answers.history.history import Entry, Violation

REMOVED = ("its beginning is gone from the log: {}. A limit of its stream (max_bytes, max_msgs, max_age) removed it "
           "or somebody did")


def without_beginning(entries: Sequence[Entry]) -> Violation | None:
    """The router writes the first record of every execution, and numbers its events from 1 on."""
    first = next(((seq, record) for seq, record in entries if record.writer == "router"), None)
    if (first is not None and first[1].n == 1) or not entries:
        return None
    rest = f"the first event of the router in it is number {first[1].n}" if first else "it has nothing of the router"
    return Violation("beginning", REMOVED.format(rest), first[0] if first else entries[0][0])
