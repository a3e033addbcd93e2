"""Values out of an execution: the result of a step, the ctx at a point of the log, and parts of them by a path."""

import json
import re
from collections.abc import Iterable
from typing import Any

import click

from services.cli.console import exits, render, screen
from services.cli.console.exits import CliError
from shared.engine.leases.fence import Fence
from shared.engine.values.ctx_patch import apply_patch
from shared.events import model as ev
from shared.events.outcome import Result
from shared.events.record import Record

_PART = re.compile(r"\.?(?P<key>[^.\[\]]+)|\[(?P<index>-?\d+)\]|\[(?P<quoted>\"[^\"]*\"|'[^']*')\]")
PATH_FORM = "write it like rows[0].name, or [\"a.b\"] for a key with dots"


def result_of(records: Iterable[Record], step: str, execution_id: str) -> Result:
    """The execution's, or of the latest run of a step that gave one; exit code 7 when there is none."""
    found = _step(records, step) if step else _execution(records)
    if found is None:
        what = f"step {step!r}" if step else "it"
        raise CliError(f"{what} has given no result in execution {execution_id} (yet)", exits.NOT_FOUND)
    return found


def _execution(records: Iterable[Record]) -> Result | None:
    ends = [event for record in records for event in record.events if isinstance(event, ev.PlaybookProcessed)]
    return (ends[-1].result or Result()) if ends else None


def _step(records: Iterable[Record], step: str) -> Result | None:
    """What the router took for the result: the end of a run that counts, once it was routed."""
    names: dict[str, str] = {}
    given: dict[str, Result] = {}
    latest: Result | None = None
    fence = Fence()
    for record in filter(fence.takes, records):
        for event in record.events:
            match event:
                case ev.PlaybookRestored(results=results) if step in results:
                    latest = results[step]
                case ev.StepScheduled(run_id=run_id, step=name):
                    names[run_id] = name
                case ev.StepDone(result=result) if record.lease is not None:
                    given[record.lease.run_id] = result
                case ev.LoopDone(run_id=run_id, result=result):
                    given[run_id] = result
                case ev.NextSelected(run_id=run_id, step=name) if name == step and event.event != "step.failed":
                    latest = given.get(run_id, Result())
    return latest


def ctx_at(entries: Iterable[tuple[int, Record]], seq: int | None) -> dict[str, Any]:
    """As it was after the record `seq`; as it is when none is given."""
    ctx: dict[str, Any] = {}
    for number, record in entries:
        if seq is not None and number > seq:
            break
        for event in record.events:
            match event:
                case ev.PlaybookRestored(ctx=restored):
                    ctx = restored
                case ev.CtxPatched(patch=patch):
                    ctx = apply_patch(ctx, patch)
    return ctx


def at(value: Any, path: str) -> Any:
    """The part of the value that the path names; exit code 7 when there is none."""
    here = ""
    for part in _parts(path):
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            where = here or "the value"
            raise CliError(f"there is no {part!r} in {where}, which is {_kind(value)}", exits.NOT_FOUND) from None
        here += f"[{part}]" if isinstance(part, int) else f"{'.' if here else ''}{part}"
    return value


def _parts(path: str) -> list[str | int]:
    found: list[str | int] = []
    position = 0
    while position < len(path):
        part = _PART.match(path, position)
        if part is None or (position and part["key"] and path[position] != "."):
            raise CliError(f"{path!r} is not a path: {PATH_FORM}", exits.USAGE)
        found.append(int(part["index"]) if part["index"] else part["key"] or part["quoted"][1:-1])
        position = part.end()
    return found


def _kind(value: Any) -> str:
    match value:
        case dict():
            return f"an object with {', '.join(map(str, list(value)[:8])) or 'no keys'}"
        case list():
            return f"a list of {len(value)}"
        case _:
            return f"{json.dumps(value)[:60]}"


def show(value: Any, raw: bool, output: str) -> None:
    """JSON in lines for people; with `raw`, text is printed as it is."""
    if raw and isinstance(value, str):
        screen.exact(value)
    elif output == "json" and not raw:
        click.echo(json.dumps(value, ensure_ascii=not screen.takes_unicode(), indent=2))
    else:
        render.value(value, output)
