"""noetlctl schedule: playbooks that run at their times."""

import json
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli import context, exits, options

if TYPE_CHECKING:
    from shared.dsl.schedules import Schedule
    from shared.engine.firing import State
    from shared.runtime.timetable import Entry

NAME = click.argument("name")
SHOWN = 10


@click.group("schedule", epilog="Example: noetlctl schedule apply -f nightly.yaml")
def command() -> None:
    """Run playbooks at their times: cron and interval schedules."""


@command.command("apply", epilog="Example: noetlctl schedule apply -f nightly.yaml")
@options.files
@context.option
def apply(files: tuple[Path, ...], context_file: Path | None) -> int:
    """Store a schedule, or change one. One that is not valid is refused with exit code 3."""
    from services.cli import aio

    return aio.run(_apply(files, context_file))


async def _apply(files: tuple[Path, ...], context_file: Path | None) -> int:
    from services.cli import documents
    from shared.runtime import timetable

    found = [documents.valid(file, "Schedule") for file in files]
    async with context.connected(context.find(context_file)) as bus:
        for document, source in found:
            done = await timetable.apply(bus, document, source, int(time.time()))
            await documents.warn_unless_registered(bus, document.playbook)
            click.echo(f"{done} schedule {document.name}")
    return exits.OK


@command.command("list", epilog="Example: noetlctl schedule list -o json")
@options.output
@context.option
def list_(output: str, context_file: Path | None) -> int:
    """List the schedules with their next times."""
    from services.cli import aio

    return aio.run(_list(output, context_file))


async def _list(output: str, context_file: Path | None) -> int:
    from shared.runtime import timetable

    async with context.connected(context.find(context_file)) as bus:
        rows = [_row(name, entry) for name, entry in (await timetable.everything(bus, "Schedule")).items()]
    if output == "json":
        click.echo(json.dumps(rows, ensure_ascii=False))
        return exits.OK
    for row in rows:
        due = "paused" if row["paused"] else row["next"] or "-"
        click.echo(f"{row['name']:<24} {row['when']:<34} {due:<26} {row['playbook']}")
    return exits.OK


def _row(name: str, entry: "Entry") -> dict[str, Any]:
    from services.cli import documents

    schedule = _parsed(entry)
    due = [] if entry.paused else _next(schedule, 1)
    return {"name": name, "when": documents.when(schedule), "paused": entry.paused,
            "next": due[0]["local"] if due else "", "playbook": schedule.playbook.path}


@command.command("describe", epilog="Example: noetlctl schedule describe nightly")
@NAME
@options.output
@context.option
def describe(name: str, output: str, context_file: Path | None) -> int:
    """Show a schedule: its document, its next times and what became of the last ones."""
    from services.cli import aio

    return aio.run(_describe(name, output, context_file))


async def _describe(name: str, output: str, context_file: Path | None) -> int:
    import msgspec

    from services.cli import documents
    from shared.engine.firing import State
    from shared.runtime import timetable

    async with context.connected(context.find(context_file)) as bus:
        entry = await documents.entry(bus, "Schedule", name)
        state, _ = await timetable.read_state(bus, "Schedule", name, State)
    schedule = _parsed(entry)
    if output == "json":
        click.echo(json.dumps({
            "schedule": msgspec.to_builtins(schedule), "paused": entry.paused, "since": entry.since,
            "state": msgspec.to_builtins(state), "next": [] if entry.paused else _next(schedule, 5),
        }, ensure_ascii=False))
    else:
        _tell(schedule, entry, state)
    return exits.OK


def _tell(schedule: "Schedule", entry: "Entry", state: "State") -> None:
    from services.cli import documents
    from shared.engine import calendar

    click.echo(documents.summary(schedule))
    rule = f"catch_up {schedule.catch_up}" + (f", at most {schedule.made_up}" if schedule.catch_up == "all" else "")
    click.echo(f"  {rule}; overlap {schedule.overlap}; local times that are missing: {schedule.missing}, "
               f"repeated: {schedule.repeated}")
    for line in ["paused"] if entry.paused else [f"next     {each['local']}" for each in _next(schedule, 3)]:
        click.echo(f"  {line}")
    for at in state.owed[:SHOWN]:
        click.echo(f"  owed     {calendar.local(schedule, at).isoformat()}")
    if state.left_out:
        first = calendar.local(schedule, state.left_out).isoformat()
        click.echo(f"  missed times before {first} were too many and left out")
    for fire in state.recent[-SHOWN:]:
        why = f"  {fire.why}" if fire.why else ""
        click.echo(f"  {fire.verdict:<8} {calendar.local(schedule, fire.at).isoformat()}  {fire.execution_id}{why}")


@command.command("next", epilog="Example: noetlctl schedule next nightly -n 3; noetlctl schedule next -f nightly.yaml")
@click.argument("name", required=False)
@click.option("-f", "--file", type=click.Path(path_type=Path), help="Of a document that need not be applied.")
@click.option("-n", "--count", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many.")
@options.output
@context.option
def next_(name: str | None, file: Path | None, count: int, output: str, context_file: Path | None) -> int:
    """Print the next times of a schedule, in UTC and in its time zone."""
    from services.cli import aio

    if (name is None) == (file is None):
        raise click.UsageError("give NAME or -f FILE")
    return aio.run(_show_next(name or "", file, count, output, context_file))


async def _show_next(name: str, file: Path | None, count: int, output: str, context_file: Path | None) -> int:
    from services.cli import documents
    from shared.dsl.schedules import Schedule

    if file is not None:
        schedule, _ = documents.valid(file, "Schedule")
        assert isinstance(schedule, Schedule)
    else:
        async with context.connected(context.find(context_file)) as bus:
            schedule = _parsed(await documents.entry(bus, "Schedule", name))
    times = _next(schedule, count)
    if output == "json":
        click.echo(json.dumps(times))
    for each in times if output == "text" else ():
        click.echo(f"{each['time']}  {each['local']}")
    return exits.OK


@command.command("pause", epilog="Example: noetlctl schedule pause nightly")
@NAME
@context.option
def pause(name: str, context_file: Path | None) -> int:
    """Let a schedule fire no more; its times are not made up later."""
    from services.cli import aio

    return aio.run(_pause(name, True, context_file))


@command.command("resume", epilog="Example: noetlctl schedule resume nightly")
@NAME
@context.option
def resume(name: str, context_file: Path | None) -> int:
    """Let a paused schedule go on, from now."""
    from services.cli import aio

    return aio.run(_pause(name, False, context_file))


async def _pause(name: str, paused: bool, context_file: Path | None) -> int:
    from services.cli import documents
    from shared.runtime import timetable

    async with context.connected(context.find(context_file)) as bus:
        await documents.entry(bus, "Schedule", name)
        changed = await timetable.pause(bus, name, paused, int(time.time()))
    if changed:
        click.echo(f"{'paused' if paused else 'resumed'} schedule {name}")
    else:
        click.echo(f"schedule {name} is {'paused already' if paused else 'not paused'}")
    return exits.OK


@command.command("delete", epilog="Example: noetlctl schedule delete nightly")
@NAME
@context.option
def delete(name: str, context_file: Path | None) -> int:
    """Delete a schedule; executions that run go on."""
    from services.cli import aio

    return aio.run(_delete(name, context_file))


async def _delete(name: str, context_file: Path | None) -> int:
    from services.cli import documents
    from shared.runtime import timetable

    async with context.connected(context.find(context_file)) as bus:
        await documents.entry(bus, "Schedule", name)
        await timetable.delete(bus, "Schedule", name)
    click.echo(f"deleted schedule {name}")
    return exits.OK


def _parsed(entry: "Entry") -> "Schedule":
    from shared.dsl.schedules import Schedule
    from shared.runtime import timetable

    schedule = timetable.parse(entry, "Schedule")
    assert isinstance(schedule, Schedule)
    return schedule


def _next(schedule: "Schedule", count: int) -> list[dict[str, str]]:
    from shared.engine import calendar
    from shared.events.stamp import stamp

    times = islice(calendar.upcoming(schedule, int(time.time())), count)
    return [{"time": stamp(at), "local": calendar.local(schedule, at).isoformat()} for at in times]
