"""noetlctl rerun: new executions that take over what earlier ones have."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from services.cli.console import exits, options, render
from services.cli.console.exits import CliError
from services.cli.executions import bulk, control_requests, selection
from services.cli.stack import context
from services.cli.stack.broker_away import Patience
from shared.events import subjects

if TYPE_CHECKING:
    from shared.bus.ports import Bus
    from shared.runtime.service.settings import Settings

WAIT = click.option("--wait", is_flag=True, help="Follow the new execution to its end; exit code 4 when it fails.")


@click.command("rerun", epilog="Examples: noetlctl rerun 4f1c… --from load   noetlctl rerun 4f1c… --failed --wait   "
               "noetlctl rerun 4f1c… --failed --version latest   "
               "noetlctl rerun --from load --path 'etl/*' --status failed --dry-run")
@bulk.arguments
@click.option("--from", "step", metavar="STEP", help="Everything as it was when this step was last entered.")
@click.option("--failed", is_flag=True, help="Everything as it was in the end; only what failed runs again.")
@click.option("--version", metavar="latest|VERSION",
              help="Go on with that version of the playbook; what is done has to be written the same there.")
@WAIT
@render.option()
@options.timeout
@context.option
def command(
    what: bulk.Chosen, step: str | None, failed: bool, version: str | None, wait: bool, output: str,
    timeout: float | None, context_file: Path | None,
) -> int:
    """Start a new execution from a step of an earlier one, or from what failed in it.

    Several may be named; or they are chosen by what they are, of those that are over unless --status says otherwise.
    """
    if version == "":
        raise CliError("--version is empty, as of a variable that is not set: latest, or a version", exits.USAGE)
    if bool(step) == failed:
        raise CliError("say where to begin: --from STEP, or --failed", exits.USAGE)
    statuses = ("failed", "cancelled") if failed else selection.OVER
    return again(Start(step or "", version or ""), what, statuses, wait, output, timeout, context_file)


class Start(NamedTuple):
    """From the step, or without one from what failed; with a version of the playbook, or without one as it was."""

    step: str = ""
    version: str = ""


def again(
    start: Start, what: bulk.Chosen, statuses: tuple[str, ...], wait: bool, output: str, timeout: float | None,
    context_file: Path | None,
) -> int:
    from services.cli.console import run_async

    if wait and len(what.names) == 1 and not what.dry_run:
        return run_async.run(_followed(what.names[0], start, output, timeout, context_file))

    async def ask(bus: "Bus", settings: "Settings", name: str) -> bulk.Row:
        from services.cli.executions import requests

        new = await _start(bus, settings, name, start)
        if len(what.names) == 1 and not start.version:
            await _tell_newer(bus, settings, name)
        status, error = "started", None
        if wait:
            summary = await requests.finish_within(bus, new, settings.partitions, timeout, quiet=True)
            status, error = summary.status, str(summary.error["message"]) if summary.error else None
        return {"execution_id": new, "status": status, "of": name, "error": error}

    return run_async.run(bulk.carry_out(bulk.Wish("rerun", subjects.RERUN, statuses, ask), what, output, context_file))


async def _start(bus: "Bus", settings: "Settings", name: str, start: Start) -> str:
    from services.cli.executions import logbook
    from services.cli.why import steps
    from shared.events.request import Control

    if start.step:
        await steps.expect(await logbook.read(bus, name, settings.partitions), start.step)
    asked = Control(name, by=control_requests.me(), name=start.step, version=start.version)
    return await control_requests.send(bus, settings, subjects.RERUN, asked)


async def _tell_newer(bus: "Bus", settings: "Settings", name: str) -> None:
    """Whoever has mended the playbook and registered it expects that it runs."""
    from services.cli.executions.records import history
    from shared.answers.history.summary import Summary
    from shared.dsl.model.edition import source_of
    from shared.errors import NoetlError
    from shared.runtime.stores import catalog

    summary = Summary(name)
    try:
        for record in await history(bus, name, settings.partitions):
            summary.apply(record)
        latest = await catalog.find(bus, summary.path)
    except NoetlError:  # it is deleted, or not for this user to see; the rerun is on its way
        return
    if latest.digest != source_of(summary.digest):
        click.echo(f"it runs the source that {name} ran; version {latest.version} of {summary.path} is another: "
                   "--version latest goes on with that", err=True)


async def _followed(name: str, start: Start, output: str, timeout: float | None, context_file: Path | None) -> int:
    from services.cli.executions import generated_names, requests
    from services.cli.executions.result_output import show

    settings = context.find(context_file)
    async with context.connected(settings, Patience(timeout)) as bus:
        started = await _start(bus, settings, name, start)
        if not start.version:
            await _tell_newer(bus, settings, name)
        summary = await requests.finish_within(bus, started, settings.partitions, timeout)
        return await show(bus, summary, output, await generated_names.of(bus, summary.digest))
