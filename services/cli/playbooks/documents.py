"""A schedule, trigger or pool file, read and checked; and what the commands about them have in common."""

import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import click
from msgspec import Struct

from services.cli.console import exits, render, times
from services.cli.console.exits import CliError
from services.cli.playbooks import diagnostics as playbook_diagnostics
from services.cli.playbooks import kinds
from shared.bus.ports import Bus
from shared.dsl.documents.compile import POOL, compile_document, compile_pool, kind_in
from shared.dsl.documents.header import PlaybookRef
from shared.dsl.documents.pools import Pool
from shared.dsl.documents.schedules import Schedule
from shared.dsl.documents.triggers import Trigger
from shared.dsl.model.diagnostics import Diagnostic
from shared.engine.automation import calendar
from shared.events.stamp import stamp
from shared.runtime.stores import catalog
from shared.runtime.stores import schedules as store_schedules
from shared.runtime.stores.documents import NotThere
from shared.tools import registry

Kind = Literal["Schedule", "Trigger"]


class Checked(Struct, frozen=True):
    """`document` is None when it cannot be used."""

    source: str
    document: Schedule | Trigger | Pool | None
    diagnostics: tuple[Diagnostic, ...]


def kind(file: Path) -> str:
    """`Schedule`, `Trigger`, `Pool`, `Test`, or empty for anything else."""
    return kind_in(read(file))


def check(file: Path, wanted: str) -> Checked:
    source = read(file)
    text = source.decode(errors="replace")
    if wanted == POOL:
        found = compile_pool(source, kinds=registry.specs(), file=str(file))
        return Checked(text, found.document, found.diagnostics)
    compiled = compile_document(source, kind=wanted, file=str(file))
    return Checked(text, compiled.document, compiled.diagnostics)


def valid(file: Path, wanted: Kind) -> tuple[Schedule | Trigger, str]:
    """Prints what there is to say; ends the command with 3 when the document cannot be used."""
    kinds.expect(file, read(file), wanted)
    checked = check(file, wanted)
    playbook_diagnostics.report(checked.diagnostics)
    if checked.document is None:
        raise playbook_diagnostics.not_valid(file, checked.diagnostics)
    assert not isinstance(checked.document, Pool)  # `wanted` is another kind
    return checked.document, checked.source


async def warn_unless_registered(bus: Bus, playbook: PlaybookRef) -> None:
    try:
        await catalog.find(bus, playbook.path, playbook.version)
    except catalog.NotRegistered as error:
        click.echo(f"warning: {error}; executions fail until it is", err=True)


async def entry(bus: Bus, wanted: Kind, name: str) -> store_schedules.Entry:
    """What is stored under the name; ends the command with 7 when nothing is."""
    try:
        return (await store_schedules.find(bus, wanted, name))[0]
    except NotThere as error:
        raise CliError(str(error), exits.NOT_FOUND) from None


def schedule_in(entry: store_schedules.Entry) -> Schedule:
    schedule = store_schedules.parse(entry, "Schedule")
    assert isinstance(schedule, Schedule)
    return schedule


def trigger_in(entry: store_schedules.Entry) -> Trigger:
    trigger = store_schedules.parse(entry, "Trigger")
    assert isinstance(trigger, Trigger)
    return trigger


def summary(document: Schedule | Trigger | Pool) -> str:
    """One line about a valid document."""
    if isinstance(document, Pool):
        return f"pool {document.name}, backend {document.backend}"
    if isinstance(document, Trigger):
        where = f"stream {document.stream}" if document.stream else "core messages"
        return f"trigger {document.name}, {document.subject} ({where}), path {document.playbook.path}"
    return f"schedule {document.name}, {when(document)}, path {document.playbook.path}"


def when(schedule: Schedule) -> str:
    if schedule.every:
        return f"every {times.length(schedule.every, exact=True)}"
    return f"{schedule.cron} {schedule.timezone}"


def next_times(schedule: Schedule, count: int) -> list[dict[str, str]]:
    """In UTC and in the schedule's time zone."""
    upcoming = islice(calendar.upcoming(schedule, int(time.time())), count)
    return [{"time": stamp(at), "local": calendar.local(schedule, at).isoformat()} for at in upcoming]


def tell_applied(what: str, rows: Sequence[Mapping[str, Any]], output: str) -> None:
    """What became, or would become, of documents."""

    def line(row: Mapping[str, Any]) -> str:
        done = {"created": "would create", "changed": "would change", "unchanged": "would leave as it is"}
        return f"{done[row['status']] if row['dry_run'] else row['status']} {what} {row['name']}"

    columns = (render.Column("NAME", "name"), render.Column("STATUS", "status"))
    render.one_or_rows(rows, len(rows) == 1, columns, output, "name", line)


def read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}", exits.USAGE) from None
