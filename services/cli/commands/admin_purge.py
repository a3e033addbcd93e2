"""noetlctl admin purge: what executions that ended long ago have left behind. The log itself stays."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli.console import exits, options, render
from services.cli.console.confirm import confirmed
from services.cli.console.exits import CliError
from services.cli.stack import context

if TYPE_CHECKING:
    from shared.runtime.service.settings import Settings

ENDINGS = ("completed", "failed", "cancelled")
LIMIT = 10_000


@click.command("purge", epilog="Example: noetlctl admin purge --older 30d --status completed --dry-run")
@click.option("--older", required=True, metavar="TIME", help="How long ago they ended at the least: 30d, 12h.")
@click.option("--status", "statuses", metavar="STATUS,…", default=",".join(ENDINGS), show_default=True,
              help="How they ended.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=LIMIT, show_default=True,
              help="How many executions at most.")
@options.dry_run
@options.yes
@render.option("table", "json", "yaml")
@context.option
def command(
    older: str, statuses: str, limit: int, dry_run: bool, yes: bool, output: str, context_file: Path | None
) -> int:
    """Remove the large results, snapshots and details of executions that ended long ago, and old dead letters.

    Their events stay in the log, and one row each in the read model. An execution goes together with those that it
    called, that called it, or that were rerun from it; all of them must be over.
    """
    from services.cli.console import run_async
    from shared.dsl.model.durations import seconds_of

    age = seconds_of(older)
    if not age:
        raise CliError(f"--older {older}: give a time such as 30d, 12h or 90m", exits.USAGE)
    wanted = tuple(statuses.split(","))
    if unknown := set(wanted) - set(ENDINGS):
        raise CliError(f"--status {', '.join(sorted(unknown))}: one of {', '.join(ENDINGS)}", exits.USAGE)
    settings = context.find(context_file)
    if not settings.postgres_dsn:
        raise CliError("old executions are found in the read model: set NOETL_POSTGRES_DSN")
    what = f"remove the results and details of executions that ended over {older} ago"
    confirmed(what, yes or dry_run, ", or --dry-run to see what would go")
    return run_async.run(_purge(settings, age, wanted, limit, dry_run, output))


async def _purge(
    settings: "Settings", age_s: float, statuses: tuple[str, ...], limit: int, dry_run: bool, output: str
) -> int:
    from services.cli.admin.purge import Purge
    from services.cli.executions.readmodel import connected
    from shared.bus.jetstream import JetStreamBus
    from shared.events.stamp import stamp

    async with context.connected(settings) as bus, connected(context.writing(settings)) as connection:
        assert isinstance(bus, JetStreamBus)
        before = await bus.time() - age_s
        purge = Purge(bus, connection, settings.partitions, before)
        choice = await purge.choose(statuses, limit)
        removed = await (purge.count(choice.chosen) if dry_run else purge.remove(choice.chosen))
    found: dict[str, Any] = {
        "before": stamp(before), "dry_run": dry_run, "executions": list(choice.chosen), "removed": removed,
        "kept": {"related": choice.related}, "more": choice.more,
    }
    render.document(found, output, "before", lambda: click.echo(_text(found)))
    return exits.OK


def _text(found: dict[str, Any]) -> str:
    removed = found["removed"]
    lines = [
        ("would remove" if found["dry_run"] else "removed")
        + f" of {len(found['executions'])} executions that ended before {found['before'][:19]}Z: "
        f"{removed['results']} parts of results, {removed['snapshots']} snapshots, {removed['rows']} rows; "
        f"{removed['dead_letters']} dead letters",
        "kept: their events, which are append-only, and a row each in the list",
    ]
    if found["kept"]["related"]:
        lines.append(f"kept: {found['kept']['related']} that are related to one that is not over or not old enough")
    if found["more"]:
        lines.append("there are more: run it again")
    return "\n".join(lines)
