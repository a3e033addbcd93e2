"""noetlctl trace: the critical path of an execution and where its time went."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from services.cli.console import execution_ids, exits, render
from services.cli.stack import context

MAX_RUNS = 60     # bars; of more, those that took longest
MAX_WIDTH = 160
PIPE_WIDTH = 100
MAX_PATH = 30     # entries of the critical path


@click.command("trace", epilog="Examples: noetlctl trace 4f1c…   noetlctl trace 4f1c… -o json")
@execution_ids.argument
@render.option()
@context.option
def command(execution: str, output: str, context_file: Path | None) -> int:
    """Show where the time of an execution went.

    The critical path is the chain of causes that ends last; its parts add up to the time of the execution. An
    execution that is not over is shown up to now.
    """
    from services.cli.console import run_async

    return run_async.run(_trace(execution, output, context_file))


async def _trace(execution_id: str, output: str, context_file: Path | None) -> int:
    from services.cli.executions import histories, logbook
    from shared.answers.trace.critical_path import trace
    from shared.answers.trace.shape import told

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        book = await logbook.read(bus, execution_id, settings.partitions)
        now = await bus.time()
    with histories.fitting():
        found = told(trace(execution_id, book.entries, now))
    render.document(found, output, "execution_id", lambda: show(found))
    return exits.OK


def show(found: dict[str, Any]) -> None:
    from services.cli.console.gantt import LOOKS, legend, took

    terminal = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    wall = found["wall_us"]
    state = "" if found["finished"] else ", up to now"
    click.echo(f"{found['execution_id']} {found['path']} {found['status']}: {took(wall)}{state}\n")
    _chart(found, terminal)
    used = [part for part in LOOKS if any(run["parts_us"][part] for run in found["runs"])]
    click.echo(f"\n{legend(used, terminal)}\n")
    click.echo("Critical path:")
    for part, spent in sorted(found["parts_us"].items(), key=lambda entry: -entry[1]):
        if spent:
            click.echo(f"  {part:<11} {took(spent):>10}  {100 * spent / wall:5.1f} %")
    click.echo("\nMost of it:")
    for top in found["top"]:
        click.echo(f"  {top['part']:<11} {took(top['took_us']):>10}  {top['step'] or 'the execution'}")
    _loops(found)


def _chart(found: dict[str, Any], terminal: bool) -> None:
    from services.cli.console.gantt import chart, took

    runs = found["runs"]
    if len(runs) > MAX_RUNS:
        longest = sorted(runs, key=lambda run: run["start_us"] - run["end_us"])[:MAX_RUNS]
        click.echo(f"the {MAX_RUNS} runs of {len(runs)} that took longest (-o json has all)", err=True)
        runs = [run for run in runs if run in longest]
    width = min(shutil.get_terminal_size().columns, MAX_WIDTH) if terminal else PIPE_WIDTH
    rows = [(_label(run), run["spans"], took(run["end_us"] - run["start_us"])) for run in runs]
    for line in chart(rows, found["wall_us"], width, terminal):
        click.echo(line)


def _label(run: dict[str, Any]) -> str:
    name = str(run["run_id"]).removesuffix(":1")
    many = f" x{run['loop']['iterations']}" if run["loop"] is not None else ""
    return name + many + ("" if run["status"] == "done" else f" ({run['status']})")


def _loops(found: dict[str, Any]) -> None:
    from services.cli.console.gantt import took

    for run in found["runs"]:
        loop = run["loop"]
        if loop is not None:
            figures = ", ".join(f"{name} {took(loop[f'{name}_us'])}" for name in ("p50", "p95", "max"))
            slow = ", ".join(f"[{each['index']}] {took(each['took_us'])}" for each in loop["slowest"])
            click.echo(f"\n{run['run_id']}: {loop['iterations']} iterations, {figures}; slowest {slow}")
