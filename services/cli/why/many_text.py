"""What holds many executions, for people and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from services.cli.console import render, screen, times
from services.cli.console.render import Column
from services.cli.stack.remedies import words
from services.cli.why.many import Group, Standing
from services.cli.why.text import COLOURS

SHOWN = 5  # executions of a cause, unless all are wanted


def row(one: Standing) -> dict[str, Any]:
    answer, reason = one.answer, one.reason
    return {
        "execution_id": answer.execution_id, "path": answer.path, "status": answer.status, "cause": reason.cause,
        "kind": reason.kind, "mover": reason.mover, "since": one.since.isoformat() if one.since is not None else None,
        "step": reason.step or None, "text": reason.text, "remedy": words(reason.remedy) or None,
    }


def _since(found: Mapping[str, Any]) -> str:
    return times.local(times.parsed(found["since"])) if found["since"] else ""


COLUMNS = (
    Column("EXECUTION", "execution_id"), Column("STATUS", "status", colour=True), Column("CAUSE", "cause"),
    Column("SINCE", _since), Column("PLAYBOOK", "path"), Column("STEP", "step"),
    Column("WHY", lambda row: times.localized(row["text"])),
    Column("REMEDY", "remedy", wide=True),
)


def shape(groups: Sequence[Group], *, looked: int, more: bool) -> dict[str, Any]:
    return {
        "executions": looked, "more": more,
        "causes": [{
            "cause": group.cause, "kind": group.first.reason.kind, "mover": group.first.reason.mover,
            "count": len(group.standing), "since": row(group.first)["since"], "text": group.first.reason.text,
            "remedy": words(group.first.reason.remedy) or None, "executions": [row(one) for one in group.standing],
        } for group in groups],
    }


def lines(groups: Sequence[Group], now: datetime, wide: bool = False) -> Iterator[str]:
    """`wide`: every execution, not only the first of each cause."""
    for group in groups:
        first, count = group.first, len(group.standing)
        kind = screen.style(first.reason.kind, fg=COLOURS[first.reason.kind])
        many = "1 execution" if count == 1 else f"{count} executions"
        yield f"{kind}  [{group.cause}]  {many}{_for(first, now)}"
        yield f"  {times.localized(first.reason.text)}"
        if first.reason.remedy is not None:
            yield f"  → {words(first.reason.remedy)}"
        shown = group.standing if wide else group.standing[:SHOWN]
        cells = [[one.answer.execution_id, one.answer.path, one.reason.run_id or "-", _for(one, now, "for ")]
                 for one in shown]
        yield from (f"    {line}" for line in render.aligned(cells, [_plain] * 4, [_plain] * 4))
        if len(shown) < count:
            yield f"    and {count - len(shown)} more (-o wide shows all)"


def _for(one: Standing, now: datetime, before: str = ", the first for ") -> str:
    return f"{before}{times.length((now - one.since).total_seconds())}" if one.since is not None else ""


def _plain(_text: str) -> str | None:
    return None
