"""noetlctl trigger: messages of a NATS subject that start executions."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli.console import exits, options, render
from services.cli.stack import context

if TYPE_CHECKING:
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
    from services.cli.playbooks import automation

    return run_async.run(automation.apply("Trigger", files, dry_run, output, context_file))


@command.command("list", epilog="Example: noetlctl trigger list -o json")
@render.option()
@context.option
def list_(output: str, context_file: Path | None) -> int:
    """List the triggers."""
    from services.cli import nouns
    from services.cli.console import run_async

    return run_async.run(nouns.show("trigger", output, context_file))


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
    from services.cli.playbooks import automation

    return run_async.run(automation.delete("Trigger", name, output, context_file))
