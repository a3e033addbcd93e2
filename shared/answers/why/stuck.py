"""Whether anything will move an execution that is not over, from what `why` says of it: the last rule of `verify`.

One answer raises doubts at most. A reason that nothing moves, or that whoever mends such things should have mended, is
a finding when it is still there after its time and the execution has not gone on.
"""

from collections.abc import Iterator

from msgspec import Struct

from shared.answers.history.history import Violation
from shared.answers.why.facts import Answer, Reason
from shared.events.run_index import in_brackets

STILL_S = 10.0  # a service that is busy decides within this time


class Doubt(Struct, frozen=True):
    """A reason that may be there for ever: the same one as long as its execution does not proceed."""

    execution_id: str
    as_of: int
    cause: str
    run_id: str = ""
    index: int = -1


def doubts(answer: Answer) -> dict[Doubt, Reason]:
    """Those of the executions that it waits for are its own."""
    return dict(_doubts(answer))


def _doubts(answer: Answer) -> Iterator[tuple[Doubt, Reason]]:
    kinds = {reason.kind for reason in answer.reasons}
    if not kinds & {"over", "blocked", "running"}:
        reason = Reason("more", "blocked", "nothing is known that it waits for", moved_by="nothing")
        yield Doubt(answer.execution_id, answer.as_of, ""), reason
    for reason in answer.reasons:
        if reason.mover == "nothing" or reason.mended_s:
            yield Doubt(answer.execution_id, answer.as_of, reason.cause, reason.run_id, reason.index), reason
        for other in reason.because:
            yield from _doubts(other)


def patience(reason: Reason) -> float:
    """How long it may be there."""
    return max(STILL_S, reason.mended_s)


def finding(execution_id: str, last: int, doubt: Doubt, reason: Reason, seen_s: float) -> Violation:
    """`last` is the last record of the execution, `seen_s` for how long the reason was looked at."""
    place = f"execution {doubt.execution_id}, which it waits for: " if doubt.execution_id != execution_id else ""
    run = f"{doubt.run_id}{in_brackets(doubt.index)}: " if doubt.run_id else ""
    text = f"nothing will move it ({doubt.cause or 'no reason'}, for {seen_s:.0f} s): {place}{run}{reason.text}"
    return Violation("stuck", text, last)
