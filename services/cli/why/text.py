"""The answer of `why` for people, and as JSON."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from services.cli.console import render, screen, times
from services.cli.executions import failure_lines
from services.cli.stack.remedies import words
from shared.events.run_index import is_iteration

if TYPE_CHECKING:
    from shared.answers.why.facts import Answer, Reason

COLOURS = {"blocked": "red", "denied": "yellow", "running": "cyan", "over": None, "note": None}
MAX_INDEXES = 10
SHOWN = ("failure", "printed")  # values that stand below the text, line by line


def shape(answer: "Answer") -> dict[str, Any]:
    """Every key is there, whatever the cause."""
    return {
        "execution_id": answer.execution_id, "status": answer.status, "path": answer.path,
        "by": answer.by or None, "started": answer.started or None, "as_of": answer.as_of,
        "reasons": [_reason(reason) for reason in answer.reasons],
    }


def _reason(reason: "Reason") -> dict[str, Any]:
    return {
        "cause": reason.cause, "kind": reason.kind, "text": reason.text, "step": reason.step or None,
        "run_id": reason.run_id or None, "index": reason.index if is_iteration(reason.index) else None,
        "indexes": list(reason.indexes), "task": reason.task or None, "attempt": reason.attempt or None,
        "values": reason.values, "since": reason.since or None, "until": reason.until or None,
        "remedy": words(reason.remedy) or None, "mover": reason.mover,
        "because": [shape(answer) for answer in reason.because],
    }


def tell(answer: "Answer", wide: bool = False) -> None:
    for line in lines(answer, datetime.now(UTC), wide):
        click.echo(line)


def lines(answer: "Answer", now: datetime, wide: bool = False) -> Iterator[str]:
    """`wide`: with the values that decide."""
    status = screen.style(answer.status, fg=render.COLOURS.get(answer.status))
    started = f", started {_ago(answer.started, now)}" if answer.started else ""
    started += f" by {answer.by}" if answer.by else ""
    yield f"{answer.execution_id}  {status}  {answer.path}{started}".rstrip()
    for reason in answer.reasons:
        yield from ("  " + line for line in _told(reason, now, wide))


def _told(reason: "Reason", now: datetime, wide: bool) -> Iterator[str]:
    kind = screen.style(reason.kind, fg=COLOURS[reason.kind])
    where = f" {_place(reason)}" if _place(reason) else ""
    yield f"{kind}{where}  [{reason.cause}]"
    yield f"  {times.localized(reason.text)}"
    for name in SHOWN:
        yield from failure_lines.lines(reason.values.get(name), "    ")
    when = [f"since {times.local(times.parsed(reason.since))} ({_ago(reason.since, now)})"] if reason.since else []
    when += [f"until {times.local(times.parsed(reason.until))} ({_ago(reason.until, now)})"] if reason.until else []
    if when:
        yield f"  {', '.join(when)}"
    if reason.remedy is not None:
        yield f"  → {words(reason.remedy)}"
    for name, value in reason.values.items() if wide else ():
        if name in SHOWN:
            continue  # it stands above
        yield f"    {name}: {json.dumps(value, ensure_ascii=False, default=str)}"
    for answer in reason.because:
        yield "  because of"
        yield from ("    " + line for line in lines(answer, now, wide))


def _place(reason: "Reason") -> str:
    if not reason.run_id:
        return f"step {reason.step}" if reason.step else ""
    found = reason.run_id
    if reason.indexes:
        more = "…" if len(reason.indexes) > MAX_INDEXES else ""
        found += f" iterations {', '.join(map(str, reason.indexes[:MAX_INDEXES]))}{more}"
    elif is_iteration(reason.index):
        found += f" iteration {reason.index}"
    return found + (f" task {reason.task}" if reason.task else "")


def _ago(text: str, now: datetime) -> str:
    seconds = (now - times.parsed(text)).total_seconds()
    return f"{times.length(seconds)} ago" if seconds >= 0 else f"in {times.length(-seconds)}"
