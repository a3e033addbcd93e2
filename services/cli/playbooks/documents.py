"""A schedule, trigger or pool file, read and checked; and what the commands about them have in common."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import click
from msgspec import Struct

from services.cli import exits, findings, render, times
from services.cli.exits import CliError
from shared.bus.ports import Bus
from shared.dsl.diagnostics import Diagnostic
from shared.dsl.documents import POOL, compile_document, compile_pool, kind_in
from shared.dsl.parts import PlaybookRef
from shared.dsl.pools import Pool
from shared.dsl.schedules import Schedule
from shared.dsl.triggers import Trigger
from shared.runtime import catalog, timetable
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
    checked = check(file, wanted)
    findings.report(checked.diagnostics)
    if checked.document is None:
        raise findings.not_valid(file, checked.diagnostics)
    assert not isinstance(checked.document, Pool)  # `wanted` is another kind
    return checked.document, checked.source


async def warn_unless_registered(bus: Bus, playbook: PlaybookRef) -> None:
    try:
        await catalog.find(bus, playbook.path, playbook.version)
    except catalog.NotRegistered as error:
        click.echo(f"warning: {error}; executions fail until it is", err=True)


async def entry(bus: Bus, wanted: Kind, name: str) -> timetable.Entry:
    """What is stored under the name; ends the command with 7 when nothing is."""
    try:
        return (await timetable.find(bus, wanted, name))[0]
    except timetable.NotThere as error:
        raise CliError(str(error), exits.NOT_FOUND) from None


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
