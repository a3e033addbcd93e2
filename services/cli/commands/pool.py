"""noetlctl pool: its command line; `services/cli/pools` changes and shows pools."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from services.cli.console import options, render
from services.cli.stack import completions, context

F = TypeVar("F", bound=Callable[..., Any])
NAME = click.argument("name", shell_complete=completions.pools)


class Length(click.ParamType[float]):
    """Seconds, or a length such as 90s, 10m or 1h30m."""

    name = "LENGTH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from shared.dsl.model.durations import seconds_of

        found = seconds_of(str(value))
        if found is None:
            try:
                found = float(value)
            except ValueError:
                found = 0.0
        if not 0 < found <= 366 * 86_400:
            self.fail(f"{value!r} is not a length of time: write 90s, 10m or 1h30m", param, ctx)
        return found


class Workers(click.ParamType[int | None]):
    """How many, or None for `auto`: as many as the demand asks for."""

    name = "WORKERS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        return None if value == "auto" else click.IntRange(0, 256).convert(value, param, ctx)


def waits(default: str) -> Callable[[F], F]:
    def add(function: F) -> F:
        within = click.option("--timeout", type=Length(), default=default, show_default=True,
                              help="Give up waiting after so long; what was asked for stands.")
        return within(click.option("--no-wait", is_flag=True, help="Return when it is recorded.")(function))

    return add


take_over = click.option("--take-over", is_flag=True,
                         help="Although it belongs to another, such as helm/<release>: from now on it is yours.")
note = click.option("--note", default="", help="Why; shown with the pool.")


@click.group("pool", epilog="Example: noetlctl pool apply -f etl.yaml")
def command() -> None:
    """Worker pools: how many workers, whether they get work, how they stand."""


@command.command("apply", epilog="Example: noetlctl pool apply -f etl.yaml --generation 3")
@options.files
@click.option("--generation", type=click.IntRange(0), metavar="N",
              help="Only if the pool is still at this generation; exit code 8 if not.")
@take_over
@waits("60s")
@render.option()
@context.option
def apply(files: tuple[Path, ...], generation: int | None, take_over: bool, **rest: Any) -> int:
    """Store a pool, or change one. Exit code 8 when someone else changed it meanwhile, or it is another's: says who."""
    from services.cli.console import run_async
    from services.cli.pools import changes

    return run_async.run(changes.apply(files, generation, take_over, changes.Manner(**rest)))


@command.command("create", epilog="Example: noetlctl pool create gpu --workers 2 --provides gpu,eu")
@NAME
@click.option("--backend", type=click.Choice(["process", "external", "kubernetes"]), default="process",
              show_default=True, help="Who runs the workers.")
@click.option("--workers", type=click.IntRange(0, 256), help="How many workers (1 unless given).")
@click.option("--slots", type=click.IntRange(1, 4096), help="Step-runs a worker holds at a time.")
@click.option("--provides", default="", metavar="A,B", help="Capabilities that steps may require.")
@waits("60s")
@render.option()
@context.option
def create(
    name: str, backend: str, workers: int | None, slots: int | None, provides: str, **rest: Any
) -> int:
    """Make a new pool without a file. Exit code 8 when it is there."""
    from services.cli.console import run_async
    from services.cli.pools import changes

    return run_async.run(changes.create(name, backend, workers, slots, provides, changes.Manner(**rest)))


@command.command("diff", epilog="Example: noetlctl pool diff -f etl.yaml --exit-code")
@options.files
@click.option("--exit-code", is_flag=True, help="Exit with 1 when something would change.")
@render.option()
@context.option
def diff(files: tuple[Path, ...], exit_code: bool, output: str, context_file: Path | None) -> int:
    """Show what `apply` would change."""
    from services.cli.console import run_async
    from services.cli.pools import changes

    return run_async.run(changes.diff(files, exit_code, output, context_file))


@command.command("list", epilog="Example: noetlctl pool list -o wide")
@render.option()
@context.option
def list_(output: str, context_file: Path | None) -> int:
    """List the pools: workers, what waits, for how long."""
    from services.cli.console import run_async
    from services.cli.pools import views

    return run_async.run(views.show_list(output, context_file))


@command.command("describe", epilog="Example: noetlctl pool describe etl")
@NAME
@render.option()
@context.option
def describe(name: str, output: str, context_file: Path | None) -> int:
    """Show a pool: its document, who paused it and why, its workers."""
    from services.cli.console import run_async
    from services.cli.pools import views

    return run_async.run(views.describe(name, output, context_file))


@command.command("scale", epilog="Example: noetlctl pool scale etl 5")
@NAME
@click.argument("workers", type=Workers())
@waits("60s")
@render.option()
@context.option
def scale(name: str, workers: int | None, **rest: Any) -> int:
    """Set how many workers a pool has; `auto`: as many as its demand asks for, where its document says how. Workers
    that go finish what they hold first, the idle ones go first."""
    from services.cli.console import run_async
    from services.cli.pools import changes

    return run_async.run(changes.scale(name, workers, changes.Manner(**rest)))


@command.command("pause", epilog='Example: noetlctl pool pause etl --note "database upgrade" --for 10m')
@NAME
@note
@click.option("--for", "for_s", type=Length(), help="Resume by itself after so long.")
@waits("20s")
@render.option()
@context.option
def pause(name: str, note: str, for_s: float | None, **rest: Any) -> int:
    """Deliver nothing to a pool; what its workers hold goes on."""
    from services.cli.console import run_async
    from services.cli.pools import changes

    return run_async.run(changes.pause(name, note, for_s, changes.Manner(**rest)))


@command.command("resume", epilog="Example: noetlctl pool resume etl")
@NAME
@waits("60s")
@render.option()
@context.option
def resume(name: str, **rest: Any) -> int:
    """Deliver to a paused or drained pool again."""
    from services.cli.console import run_async
    from services.cli.pools import changes

    return run_async.run(changes.resume(name, changes.Manner(**rest)))


@command.command("drain", epilog="Example: noetlctl pool drain etl --timeout 5m")
@NAME
@note
@click.option("--timeout", "within_s", type=Length(), default="60s", show_default=True,
              help="How long running work may take to finish; then it is handed back.")
@click.option("--no-wait", is_flag=True, help="Return when it is recorded.")
@render.option()
@context.option
def drain(name: str, note: str, within_s: float, **rest: Any) -> int:
    """Deliver nothing, let running work finish, hand back the rest, end the workers; `resume` undoes it."""
    from services.cli.console import run_async
    from services.cli.pools import changes

    return run_async.run(changes.drain(name, note, within_s, changes.Manner(**rest)))


@command.command("restart", epilog="Example: noetlctl pool restart etl")
@NAME
@waits("5m")
@render.option()
@context.option
def restart(name: str, **rest: Any) -> int:
    """Replace the workers one by one: each goes when a new one is ready."""
    from services.cli.console import run_async
    from services.cli.pools import changes

    return run_async.run(changes.restart(name, changes.Manner(**rest)))


@command.command("delete", epilog="Example: noetlctl pool delete etl")
@NAME
@click.option("--force", is_flag=True, help="Although work waits in it: it stays until there is such a pool again.")
@click.option("--timeout", type=Length(), default="60s", show_default=True, help="How long to wait for its workers.")
@take_over
@options.yes
@render.option()
@context.option
def delete(name: str, force: bool, timeout: float, take_over: bool, yes: bool, **rest: Any) -> int:
    """Delete a pool. Refused with exit code 8 while work waits in it or is held by its workers, or it is another's."""
    from services.cli.console import run_async
    from services.cli.pools import changes, deletion

    manner = changes.Manner(timeout=timeout, **rest)
    return run_async.run(deletion.delete(name, force, take_over, yes, manner))


@command.command("top", epilog="Example: noetlctl pool top --every 1s")
@click.option("--every", type=Length(), default="2s", show_default=True, help="How often, on a terminal.")
@render.option("table", "wide", "json", "jsonl")
@context.option
def top(every: float, output: str, context_file: Path | None) -> int:
    """Show the pools, those with the most waiting first; again and again on a terminal, once in a pipe."""
    from services.cli.console import run_async
    from services.cli.pools import views

    return run_async.run(views.top(every, output, context_file))


@command.command("workers", epilog="Example: noetlctl pool workers etl -o json")
@click.argument("name", required=False, shell_complete=completions.pools)
@render.option()
@context.option
def workers(name: str | None, output: str, context_file: Path | None) -> int:
    """List the workers of a pool, or of all: their slots, what they hold, since when they are there."""
    from services.cli.console import run_async
    from services.cli.pools import views

    return run_async.run(views.workers(name, output, context_file))


@command.command("logs", epilog="Example: noetlctl pool logs etl --follow")
@NAME
@click.option("--worker", default="", help="Of this worker alone.")
@click.option("-f", "--follow", is_flag=True, help="Go on as they write; Ctrl-C ends it.")
@click.option("-n", "--lines", type=click.IntRange(0, 100_000), default=50, show_default=True, help="The last lines.")
@context.option
def logs(name: str, worker: str, follow: bool, lines: int, context_file: Path | None) -> int:
    """Print the log files of the workers that the pools service runs on this machine."""
    from services.cli.console import run_async
    from services.cli.pools import logs as pool_logs

    return run_async.run(pool_logs.logs(name, worker, follow, lines, context_file))
