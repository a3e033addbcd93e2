"""Schedules and triggers on a stack: what `apply` and `delete` do, whichever of the two it is."""

from pathlib import Path

import click

from services.cli.console import exits, render
from services.cli.playbooks import documents
from services.cli.playbooks.documents import Kind
from services.cli.stack import context
from shared.bus import trigger_consumer
from shared.bus.ports import Bus
from shared.dsl.documents.schedules import Schedule
from shared.dsl.documents.triggers import Trigger
from shared.runtime.stores import schedules as store_schedules
from shared.runtime.stores.documents import NotThere


async def apply(kind: Kind, files: tuple[Path, ...], dry_run: bool, output: str, context_file: Path | None) -> int:
    found = [documents.valid(file, kind) for file in files]
    rows = []
    async with context.connected(context.find(context_file)) as bus:
        for document, source in found:
            done = await (would(bus, document, source) if dry_run else store(bus, document, source))
            await documents.warn_unless_registered(bus, document.playbook)
            rows.append({"name": document.name, "status": done, "dry_run": dry_run})
    documents.tell_applied(kind.lower(), rows, output)
    return exits.OK


async def would(bus: Bus, document: Schedule | Trigger, source: str) -> str:
    """What `store` would say; nothing is written."""
    return await store_schedules.would(bus, document, source, int(await bus.time()))


async def store(bus: Bus, document: Schedule | Trigger, source: str) -> str:
    if isinstance(document, Trigger):
        return await _store_trigger(bus, document, source)
    return await store_schedules.apply(bus, document, source, int(await bus.time()))


async def _store_trigger(bus: Bus, trigger: Trigger, source: str) -> str:
    """The consumer is there before the trigger, and the one of a stream no longer named goes."""
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


async def delete(kind: Kind, name: str, output: str, context_file: Path | None) -> int:
    """The consumer of a trigger goes after it."""
    async with context.connected(context.find(context_file)) as bus:
        entry = await documents.entry(bus, kind, name)
        stream = documents.trigger_in(entry).stream if kind == "Trigger" else ""
        await store_schedules.delete(bus, kind, name)
        if stream:
            await trigger_consumer.remove(bus, name, stream)
    line = f"deleted {kind.lower()} {name}"
    render.document({"name": name, "status": "deleted"}, output, "name", lambda: click.echo(line))
    return exits.OK
