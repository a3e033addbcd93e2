"""What a program printed, in the outcome of its call; and what is kept of it when the call is cut short."""

from collections.abc import Mapping
from typing import Any, get_args

from msgspec.structs import replace

from shared import visible
from shared.events.bounds import MAX_BEAT_LINES, MAX_BEAT_TEXT, MAX_PRINTED
from shared.events.fields import Printed, Stream
from shared.events.outcome import Outcome

PRINTED: tuple[Stream, ...] = get_args(Stream)


def printed(outcome: Outcome, result: Any) -> list[tuple[Stream, str]]:
    """`meta.stdout` of a python task, the streams of a program's or a job's result."""
    found: list[tuple[Stream, Any]] = [("stdout", outcome.meta.get("stdout"))]
    if isinstance(result, dict) and ("exit_code" in result or _is_cut_short(outcome, result)):
        found += [(stream, result.get(stream)) for stream in PRINTED]
    return [(stream, text) for stream, text in found if isinstance(text, str) and text]


def _is_cut_short(outcome: Outcome, result: Mapping[str, Any]) -> bool:
    """A program that was ended with its call has no exit code."""
    return outcome.error is not None and set(result) == {"stdout", "stderr"}


def last_words(task: str, attempt: int, outcome: Outcome) -> Printed | None:
    """Of a call that nobody waits for any more: the outcome it had when it was stopped, without secrets. They are taken
    out before it is cut here, so that none of them is cut in half."""
    streams = {stream: tail(text, MAX_PRINTED) for stream, text in printed(outcome, outcome.result)}
    return Printed(task, attempt, streams) if streams else None


def with_last_words(outcome: Outcome, stopped: Outcome | None) -> Outcome:
    """The outcome of a call that was not waited for, with what the call had printed when it was stopped."""
    if stopped is None:
        return outcome
    return replace(outcome, result=stopped.result, meta={**stopped.meta, **outcome.meta})


def last_lines(text: str, *, cut: bool = False) -> tuple[str, ...]:
    """Of what a call prints that has not ended: as one may show them. `cut`: something stood before."""
    lines = text.rstrip().splitlines()
    if cut and len(lines) > 1:
        del lines[0]
    return tuple(visible.line(each[:MAX_BEAT_TEXT])[:MAX_BEAT_TEXT] for each in lines[-MAX_BEAT_LINES:])


def tail(text: str, most: int) -> str:
    return text if len(text) <= most else "…" + text[1 - most:]
