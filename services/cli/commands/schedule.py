"""noetlctl schedule: playbooks that run at their times."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli.console import exits, options, render, times
from services.cli.stack import context

if TYPE_CHECKING:
    from shared.dsl.documents.schedules import Schedule
    from shared.engine.automation.schedules import State
    from shared.runtime.stores.schedules import Entry

NAME = click.argument("name")
SHOWN = 10


@click.group("schedule", epilog="Example: noetlctl schedule apply -f nightly.yaml")
def command() -> None:
    """Run playbooks at their times: cron and interval schedules."""


@command.command("apply", epilog="Example: noetlctl schedule apply -f nightly.yaml")
@options.files
@options.dry_run
@render.option()
@context.option
def apply(files: tuple[Path, ...], dry_run: bool, output: str, context_file: Path | None) -> int:
    """Store a schedule, or change one. One that is not valid is refused with exit code 3."""
    from services.cli.console import run_async
    from services.cli.playbooks import automation

    return run_async.run(automation.apply("Schedule", files, dry_run, output, context_file))


@command.command("list", epilog="Example: noetlctl schedule list -o json")
@render.option()
@context.option
def list_(output: str, context_file: Path | None) -> int:
    """List the schedules with their next times."""
    from services.cli import nouns
    from services.cli.console import run_async

    return run_async.run(nouns.show("schedule", output, context_file))


@command.command("describe", epilog="Example: noetlctl schedule describe nightly")
@NAME
@render.option()
@context.option
def describe(name: str, output: str, context_file: Path | None) -> int:
    """Show a schedule: its document, its next times and what became of the last ones."""
    from services.cli.console import run_async

    return run_async.run(_describe(name, output, context_file))


async def _describe(name: str, output: str, context_file: Path | None) -> int:
    import msgspec

    from services.cli.playbooks import documents
    from shared.engine.automation.schedules import State
    from shared.runtime.stores import schedules as store_schedules

    async with context.connected(context.find(context_file)) as bus:
        entry = await documents.entry(bus, "Schedule", name)
        state, _ = await store_schedules.read_state(bus, "Schedule", name, State)
    schedule = documents.schedule_in(entry)
    found = {
        "name": name, "schedule": msgspec.to_builtins(schedule), "paused": entry.paused, "since": entry.since,
        "state": msgspec.to_builtins(state), "next": [] if entry.paused else documents.next_times(schedule, 5),
    }
    render.document(found, output, "name", lambda: _tell(schedule, entry, state))
    return exits.OK


def _tell(schedule: "Schedule", entry: "Entry", state: "State") -> None:
    from services.cli.playbooks import documents
    from shared.engine.automation import calendar

    click.echo(documents.summary(schedule))
    rule = f"catch_up {schedule.catch_up}" + (f", at most {schedule.made_up}" if schedule.catch_up == "all" else "")
    click.echo(f"  {rule}; overlap {schedule.overlap}; local times that are missing: {schedule.missing}, "
               f"repeated: {schedule.repeated}")
    if entry.paused:
        click.echo("  paused")
    for each in [] if entry.paused else documents.next_times(schedule, 3):
        click.echo(f"  next     {each['local']}")
    for at in state.owed[:SHOWN]:
        click.echo(f"  owed     {times.in_zone(calendar.local(schedule, at))}")
    if state.left_out:
        first = times.in_zone(calendar.local(schedule, state.left_out))
        click.echo(f"  missed times before {first} were too many and left out")
    for fire in state.recent[-SHOWN:]:
        why = f"  {fire.why}" if fire.why else ""
        click.echo(f"  {fire.verdict:<8} {times.in_zone(calendar.local(schedule, fire.at))}  {fire.execution_id}{why}")


@command.command("next", epilog="Example: noetlctl schedule next nightly -n 3; noetlctl schedule next -f nightly.yaml")
@click.argument("name", required=False)
@click.option("-f", "--file", type=click.Path(path_type=Path), help="Of a document that need not be applied.")
@click.option("-n", "--count", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many.")
@render.option()
@context.option
def next_(name: str | None, file: Path | None, count: int, output: str, context_file: Path | None) -> int:
    """Print the next times of a schedule, in UTC and in its time zone."""
    from services.cli.console import run_async

    if (name is None) == (file is None):
        raise click.UsageError("give NAME or -f FILE")
    return run_async.run(_show_next(name or "", file, count, output, context_file))


async def _show_next(name: str, file: Path | None, count: int, output: str, context_file: Path | None) -> int:
    from services.cli.playbooks import documents
    from shared.dsl.documents.schedules import Schedule

    if file is not None:
        schedule, _ = documents.valid(file, "Schedule")
        assert isinstance(schedule, Schedule)
    else:
        async with context.connected(context.find(context_file)) as bus:
            schedule = documents.schedule_in(await documents.entry(bus, "Schedule", name))
    columns = (render.Column("TIME", lambda row: times.in_zone(times.parsed(row["time"]))),
               render.Column("LOCAL", lambda row: times.in_zone(times.parsed(row["local"]))))
    render.rows(documents.next_times(schedule, count), columns, output, "time")
    return exits.OK


@command.command("backfill", epilog="Example: noetlctl schedule backfill nightly --from 2026-11-01 --to 2026-11-10")
@NAME
@click.option("--from", "since", required=True, metavar="TIME", help="The first time, or the first day.")
@click.option("--to", "until", required=True, metavar="TIME", help="The last time, or the last day; both belong to it.")
@options.dry_run
@render.option()
@context.option
def backfill(name: str, since: str, until: str, dry_run: bool, output: str, context_file: Path | None) -> int:
    """Start a schedule's executions for past times, once for each.

    Times that have been fired are left alone. Without a zone, times are of the schedule's. Where executions must not
    overlap, each starts when the one before is over. Exits 4 when one could not be started.
    """
    from services.cli.console import run_async

    return run_async.run(_backfill(name, since, until, dry_run, output, context_file))


async def _backfill(
    name: str, since: str, until: str, dry_run: bool, output: str, context_file: Path | None
) -> int:
    from services.cli.executions import backfill
    from services.cli.playbooks import documents

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        schedule = documents.schedule_in(await documents.entry(bus, "Schedule", name))
        first, last = backfill.instant(schedule, since, last=False), backfill.instant(schedule, until, last=True)
        wanted = backfill.times(schedule, first, last, await bus.time())
        rows = [row async for row in backfill.started(bus, settings, schedule, wanted, dry_run=dry_run)]
    columns = (render.Column("LOCAL", lambda row: times.in_zone(times.parsed(row["local"]))),
               render.Column("EXECUTION", "execution_id"), render.Column("STATUS", "status"),
               render.Column("WHY", "why"), render.Column("TIME", "time", wide=True))
    render.rows(rows, columns, output, "execution_id")
    return exits.FAILED if any(row["status"] == "failed" for row in rows) else exits.OK


@command.command("pause", epilog="Example: noetlctl schedule pause nightly")
@NAME
@render.option()
@context.option
def pause(name: str, output: str, context_file: Path | None) -> int:
    """Let a schedule fire no more; its times are not made up later."""
    from services.cli.console import run_async

    return run_async.run(_pause(name, True, output, context_file))


@command.command("resume", epilog="Example: noetlctl schedule resume nightly")
@NAME
@render.option()
@context.option
def resume(name: str, output: str, context_file: Path | None) -> int:
    """Let a paused schedule go on, from now."""
    from services.cli.console import run_async

    return run_async.run(_pause(name, False, output, context_file))


async def _pause(name: str, paused: bool, output: str, context_file: Path | None) -> int:
    from services.cli.playbooks import documents
    from shared.runtime.stores import schedules as store_schedules

    async with context.connected(context.find(context_file)) as bus:
        await documents.entry(bus, "Schedule", name)
        changed = await store_schedules.pause(bus, name, paused, int(await bus.time()))
    if changed:
        line = f"{'paused' if paused else 'resumed'} schedule {name}"
    else:
        line = f"schedule {name} is {'paused already' if paused else 'not paused'}"
    found = {"name": name, "paused": paused, "changed": changed}
    render.document(found, output, "name", lambda: click.echo(line))
    return exits.OK


@command.command("delete", epilog="Example: noetlctl schedule delete nightly")
@NAME
@render.option()
@context.option
def delete(name: str, output: str, context_file: Path | None) -> int:
    """Delete a schedule; executions that run go on."""
    from services.cli.console import run_async
    from services.cli.playbooks import automation

    return run_async.run(automation.delete("Schedule", name, output, context_file))
