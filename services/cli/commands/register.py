"""noetlctl register: playbooks into the catalogue."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli.console import exits, options, progress, render
from services.cli.stack import context

if TYPE_CHECKING:
    from services.cli.playbooks.playbook_file import Valid
    from shared.bus.ports import Bus

COLUMNS = (
    render.Column("PATH", "path"),
    render.Column("VERSION", "version"),
    render.Column("DIGEST", lambda row: row["digest"][:12]),
    render.Column("STATUS", "status"),
)
WOULD = {"created": "would register", "changed": "would replace", "unchanged": "has already"}


@click.command("register", epilog="Examples: noetlctl register examples/hello.yaml   "
               "noetlctl register playbooks/*.yaml --dry-run")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@options.dry_run
@render.option()
@context.option
def command(files: tuple[Path, ...], dry_run: bool, output: str, context_file: Path | None) -> int:
    """Store a playbook in the catalogue. One that cannot run is refused with exit code 3, and then none is stored."""
    from services.cli.console import run_async

    return run_async.run(_register(files, dry_run, output, context_file))


async def _register(files: tuple[Path, ...], dry_run: bool, output: str, context_file: Path | None) -> int:
    from services.cli.playbooks import playbook_file

    found = [playbook_file.valid(file) for file in files]
    async with context.connected(context.find(context_file)) as bus:
        with progress.bar("register", len(found)) as done:
            rows = []
            for each in found:
                rows.append(await _one(bus, each, dry_run))
                done()
    render.one_or_rows(rows, len(files) == 1, COLUMNS, output, "path", _line)
    return exits.OK


async def _one(bus: "Bus", playbook: "Valid", dry_run: bool) -> dict[str, Any]:
    """`status`: what the version of that path was before."""
    from shared.runtime.stores import catalog

    entry = catalog.entry_of(playbook.source, playbook.plan)
    try:
        known = await catalog.find(bus, entry.path, entry.version)
        status = "unchanged" if known == entry else "changed"
    except catalog.NotRegistered:
        status = "created"
    if not dry_run:
        await catalog.register(bus, playbook.source, playbook.plan)
    return {"path": entry.path, "version": entry.version, "digest": entry.digest,
            "playbook_id": entry.playbook_id, "status": status, "dry_run": dry_run}


def _line(row: Mapping[str, Any]) -> str:
    done = WOULD[row["status"]] if row["dry_run"] else "registered"
    return f"{done} {row['path']} version {row['version']} ({row['digest'][:12]})"
