"""noetlctl register: playbooks into the catalogue."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli.console import exits, options, progress, render
from services.cli.console.exits import CliError
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
WOULD = {"created": "would register", "changed": "would replace", "unchanged": "has already",
         "restored": "would make the latest again"}
DONE = {"created": "registered", "changed": "replaced", "unchanged": "registered", "restored": "registered"}


@click.command("register", epilog="Examples: noetlctl register examples/hello.yaml   "
               "noetlctl register playbooks/*.yaml --dry-run")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Other content under a version that is there takes its place.")
@options.dry_run
@render.option()
@context.option
def command(files: tuple[Path, ...], replace: bool, dry_run: bool, output: str, context_file: Path | None) -> int:
    """Store a playbook in the catalogue, and say what changed.

    A playbook that states no metadata.version gets the next whole number when its content is new. Other content under a
    version that it states is refused with exit code 8, one that cannot run with exit code 3; then none is stored.
    """
    from services.cli.console import run_async

    return run_async.run(_register(files, replace, dry_run, output, context_file))


async def _register(
    files: tuple[Path, ...], replace: bool, dry_run: bool, output: str, context_file: Path | None
) -> int:
    from services.cli.playbooks import playbook_file

    found = [playbook_file.valid(file) for file in files]
    async with context.connected(context.find(context_file)) as bus:
        for each in found:
            await _one(bus, each, replace, True)
        await _warn_of_credentials(bus, found)
        with progress.bar("register", len(found)) as done:
            rows = []
            for each in found:
                rows.append(await _one(bus, each, replace, dry_run))
                done()
    render.one_or_rows(rows, len(files) == 1, COLUMNS, output, "path", _line)
    return exits.OK


async def _one(bus: "Bus", playbook: "Valid", replace: bool, dry_run: bool) -> dict[str, Any]:
    """`status`: what the version of that path was before."""
    from services.cli.executions.control_requests import me
    from services.cli.playbooks import catalogue
    from shared.dsl.authoring.revision import states_version
    from shared.runtime.stores import catalog_versions

    source = playbook.source
    try:
        placed = await catalog_versions.place(
            bus, source, playbook.plan, stated=states_version(source), over=replace, by=me(), dry_run=dry_run)
    except catalog_versions.VersionTaken as taken:
        differs = catalogue.few(await catalogue.changes(bus, taken.known, source))
        raise CliError(f"{taken} ({differs}): state another metadata.version, or replace it with --replace",
                       exits.CONFLICT) from None
    entry = placed.entry
    return {"path": entry.path, "version": entry.version, "digest": entry.digest, "playbook_id": entry.playbook_id,
            "status": placed.status, "changes": await catalogue.changes(bus, placed.before, source),
            "dry_run": dry_run}


async def _warn_of_credentials(bus: "Bus", found: "list[Valid]") -> None:
    from shared.bus import topology
    from shared.dsl.check.credentials import named

    names = list(dict.fromkeys(name for each in found for name in named(each.plan)))
    stored = await bus.kv_all(topology.KEYCHAIN) if names else {}
    for name in names:
        if name not in stored:
            click.echo(f"warning: no credential {name!r} is stored (noetlctl credential {name}=JSON); executions that "
                       "need it fail until it is", err=True)


def _line(row: Mapping[str, Any]) -> str:
    from services.cli.playbooks import catalogue

    done = WOULD[row["status"]] if row["dry_run"] else DONE[row["status"]]
    which = f"{done} {row['path']} version {row['version']} ({row['digest'][:12]})"
    match row["status"]:
        case "unchanged":
            return which if row["dry_run"] else f"{which}: unchanged"
        case "restored" if not row["dry_run"]:
            which += ", the latest again"
    return f"{which}: {catalogue.few(row['changes'])}" if row["changes"] else which
