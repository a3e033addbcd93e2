"""noetlctl trigger: messages of a NATS subject that start executions."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli.console import exits, options, render
from services.cli.stack import context

if TYPE_CHECKING:
    from shared.bus.ports import Bus
    from shared.dsl.documents.triggers import Trigger


@click.group("trigger", epilog="Example: noetlctl trigger apply -f orders.yaml")
def command() -> None:
    """Start executions by messages of a NATS subject."""


@command.command("apply", epilog="Example: noetlctl trigger apply -f orders.yaml")
@options.files
@options.dry_run
@render.option()
@context.option
def apply(files: tuple[Path, ...], dry_run: bool, output: str, context_file: Path | None) -> int:
    """Store a trigger, or change one. One that is not valid is refused with exit code 3."""
    from services.cli.console import run_async

    return run_async.run(_apply(files, dry_run, output, context_file))


async def _apply(files: tuple[Path, ...], dry_run: bool, output: str, context_file: Path | None) -> int:
    from services.cli.playbooks import documents
    from shared.dsl.documents.triggers import Trigger
    from shared.runtime.stores import schedules as store_schedules

    found = [documents.valid(file, "Trigger") for file in files]
    rows = []
    async with context.connected(context.find(context_file)) as bus:
        for document, source in found:
            assert isinstance(document, Trigger)
            change = store_schedules.would(bus, document, source, int(await bus.time())) if dry_run else None
            done = await (change or store(bus, document, source))
            await documents.warn_unless_registered(bus, document.playbook)
            rows.append({"name": document.name, "status": done, "dry_run": dry_run})
    documents.tell_applied("trigger", rows, output)
    return exits.OK


async def store(bus: "Bus", trigger: "Trigger", source: str) -> str:
    """The consumer is there before the trigger, and the one of a stream no longer named goes."""
    from services.cli.playbooks import documents
    from shared.bus import trigger_consumer
    from shared.runtime.stores import schedules as store_schedules
    from shared.runtime.stores.documents import NotThere

    try:
        before = documents.trigger_in((await store_schedules.find(bus, "Trigger", trigger.name))[0]).stream
    except NotThere:
        before = ""
    if trigger.stream:
        await trigger_consumer.ensure(bus, trigger.name, trigger.stream, trigger.subject)
    done = await store_schedules.apply(bus, trigger, source, int(await bus.time()))
    if before and before != trigger.stream:
        await trigger_consumer.remove(bus, trigger.name, before)
    return done


@command.command("list", epilog="Example: noetlctl trigger list -o json")
@render.option()
@context.option
def list_(output: str, context_file: Path | None) -> int:
    """List the triggers."""
    from services.cli.console import run_async

    return run_async.run(_list(output, context_file))


async def _list(output: str, context_file: Path | None) -> int:
    from services.cli.nouns import NOUNS, triggers

    async with context.connected(context.find(context_file)) as bus:
        render.rows(await triggers(bus), NOUNS["trigger"].columns, output, "name")
    return exits.OK


@command.command("describe", epilog="Example: noetlctl trigger describe orders")
@click.argument("name")
@render.option()
@context.option
def describe(name: str, output: str, context_file: Path | None) -> int:
    """Show a trigger and the executions that hold its places."""
    from services.cli.console import run_async

    return run_async.run(_describe(name, output, context_file))


async def _describe(name: str, output: str, context_file: Path | None) -> int:
    import msgspec

    from services.cli.playbooks import documents
    from shared.runtime.stores import schedules as store_schedules
    from shared.runtime.stores.execution_status import standings

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        trigger = documents.trigger_in(await documents.entry(bus, "Trigger", name))
        holders, _ = await store_schedules.read_state(bus, "Trigger", name, store_schedules.Holders)
        found = await standings(bus, holders.running, settings.partitions)
    running = {each: standing for each, standing in found.items() if standing != "over"}
    shown = {"name": name, "trigger": msgspec.to_builtins(trigger), "running": list(running)}
    render.document(shown, output, "name", lambda: _tell(trigger, running))
    return exits.OK


def _tell(trigger: "Trigger", running: Mapping[str, str]) -> None:
    from services.cli.playbooks import documents

    click.echo(documents.summary(trigger))
    if trigger.max_running:
        click.echo(f"  {len(running)} of {trigger.max_running} places taken; when full: {trigger.when_full}")
    for each, standing in running.items():
        click.echo(f"  {'requested' if standing == 'unknown' else standing:<9} {each}")


@command.command("delete", epilog="Example: noetlctl trigger delete orders")
@click.argument("name")
@render.option()
@context.option
def delete(name: str, output: str, context_file: Path | None) -> int:
    """Delete a trigger and its consumer; executions that run go on."""
    from services.cli.console import run_async

    return run_async.run(_delete(name, output, context_file))


async def _delete(name: str, output: str, context_file: Path | None) -> int:
    from services.cli.playbooks import documents
    from shared.bus import trigger_consumer
    from shared.runtime.stores import schedules as store_schedules

    async with context.connected(context.find(context_file)) as bus:
        trigger = documents.trigger_in(await documents.entry(bus, "Trigger", name))
        await store_schedules.delete(bus, "Trigger", name)
        if trigger.stream:
            await trigger_consumer.remove(bus, name, trigger.stream)
    render.document({"name": name, "status": "deleted"}, output, "name", lambda: click.echo(f"deleted trigger {name}"))
    return exits.OK
