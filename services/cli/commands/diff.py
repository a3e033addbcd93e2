"""noetlctl diff: two executions side by side."""

import json
from pathlib import Path
from typing import Any

import click

from services.cli.console import exits, render
from services.cli.console.execution_ids import ExecutionId
from services.cli.console.render import Column
from services.cli.stack import context

MAX_CHANGES = 20
MAX_TEXT = 80


@click.command("diff", epilog="Example: noetlctl diff 4f1c… 9ab0… -o json")
@click.argument("first", type=ExecutionId())
@click.argument("second", type=ExecutionId())
@render.option("table", "json", "yaml", "jsonl")
@context.option
def command(first: str, second: str, output: str, context_file: Path | None) -> int:
    """Compare two executions.

    Runs are aligned by step and occurrence, iterations by index, tasks by their order. Exits 0 when both went the
    same way and left the same status, result and ctx; 1 when they did not. Times never count.
    """
    from services.cli.console import run_async

    return run_async.run(_diff(first, second, output, context_file))


async def _diff(first: str, second: str, output: str, context_file: Path | None) -> int:
    from services.cli.executions import histories, logbook
    from shared.answers.diff.shape import compare, side

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        books = [await logbook.read(bus, each, settings.partitions) for each in (first, second)]
        now = await bus.time()
    with histories.fitting():
        sides = [side(book.execution_id, book.entries, now) for book in books]
    found = compare(*sides)
    render.document(found, output, "", lambda: show(found))
    return exits.OK if found["same"] else exits.ERROR


def show(found: dict[str, Any]) -> None:
    from services.cli.console.gantt import took

    for name in ("a", "b"):
        about = found[name]
        which = f"{about['path']} {about['digest'][:12]}"
        click.echo(f"{name}  {about['execution_id']} {which} {about['status']}: {took(about['wall_us'])}")
    if not found["same_playbook"]:
        click.echo("\nThe playbooks differ.")
    _changes("Payload", found["payload"])
    _changes("Workload", found["workload"])
    _divergence(found)
    _changes("Result", found["result"])
    _changes("ctx", found["ctx"])
    click.echo("")
    render.table([column.title for column in COLUMNS], [[c.text(run) for c in COLUMNS] for run in found["runs"]])


def _divergence(found: dict[str, Any]) -> None:
    apart, value = found["divergence"], found["first_value"]
    if value is not None:
        click.echo(f"\nThe first value that differs: {value['what']}")
        _lines(value["changes"])
    if apart is None:
        click.echo("\nBoth went the same way.")
        return
    click.echo(f"\nThey part here: {apart['what']}")
    for name in ("a", "b"):
        turn = apart[name]
        told = "not at all" if turn is None else f"at sequence {turn['seq']}: {_way(turn)}"
        click.echo(f"  {name}  {told}")


def _way(turn: dict[str, Any]) -> str:
    shown = {name: value for name, value in turn.items() if name != "seq" and value not in (None, {}, [], "")}
    return ", ".join(f"{name} {_cut(value)}" for name, value in shown.items()) or "as it is"


def _changes(title: str, found: list[dict[str, Any]]) -> None:
    if found:
        click.echo(f"\n{title}:")
        _lines(found)


def _lines(found: list[dict[str, Any]]) -> None:
    for change in found[:MAX_CHANGES]:
        a = _cut(change["a"]) if change["in_a"] else "(none)"
        b = _cut(change["b"]) if change["in_b"] else "(none)"
        click.echo(f"  {change['path'] or 'value'}: {a} -> {b}")
    if len(found) > MAX_CHANGES:
        click.echo(f"  {len(found) - MAX_CHANGES} more (-o json has all)")


def _cut(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text)} characters)"


def _of(name: str, field: str) -> Column:
    def text(run: Any) -> Any:
        from services.cli.console.gantt import took

        unit = run[name]
        if unit is None:
            return None
        return took(unit[field]) if field.endswith("_us") else unit[field]

    title = {"status": "STATUS", "attempts": "ATTEMPTS", "took_us": "TOOK"}[field]
    return Column(f"{title} {name.upper()}", text)


COLUMNS = [
    Column("RUN", "run_id"),
    *(_of(name, field) for field in ("status", "attempts", "took_us") for name in ("a", "b")),
    Column("FACTOR", lambda run: f"{run['factor']:.2f}" if run["factor"] is not None else None),
]
