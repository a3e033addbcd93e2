"""noetlctl verify: the proof that an execution's history is right, or the first thing that is wrong with it."""

import sys
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli.console import execution_ids, exits, render, screen
from services.cli.console.exits import CliError
from services.cli.console.times import Moment
from services.cli.stack import archived, context

if TYPE_CHECKING:
    from services.cli.verify.checker import Checker, Summary

WAIT_S = 10.0


@click.command("verify", epilog="Examples: noetlctl verify 4f1c… -o json   noetlctl verify --all --since 1d   "
               "noetlctl verify --all --archive /backups/monday")
@execution_ids.optional
@click.option("--all", "everything", is_flag=True, help="Every execution in the log.")
@click.option("--all-violations", is_flag=True, help="Tell every violation, not the first one of an execution.")
@click.option("--log-only", is_flag=True, help="Leave the read model alone, and the queue too.")
@click.option(
    "--wait", "wait_s", type=click.FloatRange(min=0), default=WAIT_S, show_default=True, metavar="S",
    help="How long the read model may take to catch up with the log.",
)
@click.option("--since", type=Moment(), metavar="TIME", help="With --all: executions that began then or later.")
@render.option()
@archived.option
@context.option
def command(
    execution: str | None, everything: bool, all_violations: bool, log_only: bool, wait_s: float,
    since: datetime | None, output: str, archive_place: Path | None, context_file: Path | None,
) -> int:
    """Prove from the log that an execution is right.

    Every decision is made again from what it had folded, and must be the same; tokens, runs, loops, ctx, tasks and
    waits are counted; the read model is compared with the log. An execution that is not over and stands still is asked
    what moves it: if nothing does, that is wrong too, and it may take a minute to be certain. Exits 0 when nothing is
    wrong, also for an execution that is not over; 1 when something is, or when it cannot be told. Of an archive only
    the log is looked at; one that is damaged is refused (3).
    """
    from services.cli.console import run_async

    if everything == (execution is not None):
        raise click.UsageError("name an execution, or use --all")
    if since is not None and not everything:
        raise click.UsageError("--since goes with --all")
    most = None if all_violations else 1
    return run_async.run(_verify(execution, (context_file, archive_place), log_only, wait_s, since, output, most))


async def _verify(
    execution: str | None, places: tuple[Path | None, Path | None], log_only: bool, wait_s: float,
    since: datetime | None, output: str, most: int | None,
) -> int:
    from services.cli.verify.checker import Checker
    from services.cli.verify.read_model import ReadModel
    from services.cli.verify.unfinished import watch
    from shared.bus.jetstream import JetStreamBus

    log_only = log_only or places[1] is not None
    async with AsyncExitStack() as held:
        bus, settings = await held.enter_async_context(archived.source(*places))
        model = await held.enter_async_context(ReadModel("" if log_only else settings.postgres_dsn))
        around = watch(bus, settings.partitions) if isinstance(bus, JetStreamBus) and not log_only else None
        checker = Checker(bus, settings.partitions, None if log_only else model, wait_s, around)
        if execution:
            return await verify_one(checker, execution, output, most)
        return await verify_all(checker, output, most, since)


async def verify_one(checker: "Checker", execution_id: str, output: str, most: int | None) -> int:
    from services.cli.console.progress import patiently
    from services.cli.verify import text as verify_text
    from services.cli.verify.verdict import shown

    found = await checker.one(execution_id)
    if found is None:
        what = f"no execution {execution_id} in the log (`noetlctl get` lists the recent ones)"
        raise CliError(what, exits.NOT_FOUND)
    verdict, messages = found
    await patiently(checker.look_around(verdict), "looking at what moves it")
    told = shown(verdict, messages, most)
    render.document(told, output, "execution_id", lambda: verify_text.one(told, len(verdict.violations)))
    return exits.OK if verdict.verdict in ("verified", "unfinished") else exits.ERROR


async def verify_all(checker: "Checker", output: str, most: int | None, since: datetime | None = None) -> int:
    from services.cli.verify import text as verify_text
    from services.cli.verify.checker import everything

    summary = await everything(checker, _progress if sys.stderr.isatty() else lambda _: None, since)
    if sys.stderr.isatty():
        click.echo(screen.control("\r\x1b[K"), err=True, nl=False)
    told = verify_text.totals(summary, most)
    if output == "name":
        render.rows(told["listed"], (), output, "execution_id")
    else:
        render.document(told, output, "", lambda: verify_text.all_of(told))
    return exits.ERROR if summary.listed else exits.OK


def _progress(summary: "Summary") -> None:
    bad = len(summary.listed)
    told = screen.control("\r") + f"{len(summary.known)} executions" + (f", {bad} not right" if bad else "")
    click.echo(told, err=True, nl=False)
