"""noetlctl playbook: what the catalogue had and has under a path, and the way back."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli.console import exits, options, render, times
from services.cli.console.confirm import confirmed
from services.cli.console.exits import CliError
from services.cli.console.render import Column
from services.cli.stack import completions, context

if TYPE_CHECKING:
    from shared.bus.ports import Bus
    from shared.runtime.stores.catalog import Entry

PATH = click.argument("path", shell_complete=completions.paths)
COLUMNS = (
    Column("WHEN", lambda row: times.local(times.parsed(row["at"]))), Column("WHAT", "what"),
    Column("VERSION", "version"), Column("DIGEST", lambda row: row["digest"][:12]), Column("BY", "by"),
    Column("LATEST", lambda row: "*" if row["latest"] else ""),
)


@click.group("playbook", epilog="Example: noetlctl playbook history examples/hello")
def command() -> None:
    """Versions in the catalogue: history, diff, rollback, delete."""


@command.command("history", epilog="Example: noetlctl playbook history examples/hello -o json")
@PATH
@render.option()
@context.option
def history(path: str, output: str, context_file: Path | None) -> int:
    """Say what was registered, replaced, made the latest and deleted under a path, the newest last."""
    from services.cli.console import run_async

    return run_async.run(_history(path, output, context_file))


async def _history(path: str, output: str, context_file: Path | None) -> int:
    from services.cli.playbooks import catalogue
    from shared.events.stamp import stamp

    async with context.connected(context.find(context_file)) as bus:
        known = await catalogue.versions(bus, path)
    rows: list[dict[str, Any]] = [
        {"at": stamp(each.at / 1e9), "what": each.what, "version": each.entry.version, "digest": each.entry.digest,
         "by": each.entry.by, "latest": False} for each in known.history]
    for row, each in zip(reversed(rows), reversed(known.history), strict=True):
        if each.what != "deleted" and each.entry.means(known.latest):
            row["latest"] = True
            break
    render.rows(rows, COLUMNS, output, "version")
    return exits.OK


@command.command("diff", epilog="Examples: noetlctl playbook diff examples/hello 1 2   "
                 "noetlctl playbook diff examples/hello 1")
@PATH
@click.argument("first", metavar="A", shell_complete=completions.versions)
@click.argument("second", metavar="[B]", default="", shell_complete=completions.versions)
@render.option("text", "json", "yaml")
@context.option
def diff(path: str, first: str, second: str, output: str, context_file: Path | None) -> int:
    """Compare two versions, or one with the latest. A digest of the history is a version too.

    Exits 0 when they are the same, 1 when they are not.
    """
    from services.cli.console import run_async

    return run_async.run(_diff(path, first, second, output, context_file))


async def _diff(path: str, first: str, second: str, output: str, context_file: Path | None) -> int:
    from services.cli.playbooks import catalogue
    from shared.dsl.authoring.revision import changes

    async with context.connected(context.find(context_file)) as bus:
        a, b = await catalogue.one(bus, path, first), await catalogue.one(bus, path, second)
        old, new = await catalogue.source(bus, a), await catalogue.source(bus, b)
    found = {"path": path, "a": _named(a), "b": _named(b), "same": old == new, "changes": changes(old, new),
             "diff": _unified(path, a, old, b, new)}
    render.document(found, output, "path", lambda: _tell(found))
    return exits.OK if found["same"] else exits.ERROR


def _named(entry: "Entry") -> dict[str, str]:
    return {"version": entry.version, "digest": entry.digest}


def _unified(path: str, a: "Entry", old: bytes, b: "Entry", new: bytes) -> str:
    from difflib import unified_diff

    before, after = (text.decode("utf-8", "replace").splitlines() for text in (old, new))
    first, second = (f"{path} version {entry.version} ({entry.digest[:12]})" for entry in (a, b))
    return "\n".join(unified_diff(before, after, first, second, lineterm=""))


def _tell(found: dict[str, Any]) -> None:
    if found["same"]:
        click.echo("They are the same.")
        return
    for change in found["changes"]:
        click.echo(change)
    click.echo(f"\n{found['diff']}")


@command.command("rollback", epilog="Examples: noetlctl playbook rollback examples/hello   "
                 "noetlctl playbook rollback examples/hello --to 1")
@PATH
@click.option("--to", default="", metavar="VERSION", shell_complete=completions.versions,
              help="What it is to mean; what it meant before by default.")
@render.option()
@context.option
def rollback(path: str, to: str, output: str, context_file: Path | None) -> int:
    """Make an earlier version the one that a path without a version means.

    A digest of the history brings back a source that was replaced or deleted, under its version. What runs keeps the
    playbook it began with.
    """
    from services.cli.console import run_async

    return run_async.run(_rollback(path, to, output, context_file))


async def _rollback(path: str, to: str, output: str, context_file: Path | None) -> int:
    from services.cli.executions.control_requests import me
    from services.cli.playbooks import catalogue
    from shared.runtime.stores import catalog_versions
    from shared.runtime.stores.catalog import NotRegistered

    async with context.connected(context.find(context_file)) as bus:
        try:
            before, now = await catalog_versions.roll_back(bus, path, to, me())
        except NotRegistered as error:
            raise CliError(str(error), exits.NOT_FOUND) from None
        changed = await catalogue.changes(bus, before, await catalogue.source(bus, now))
    same = now.means(before)
    found = {"path": path, **_named(now), "before": _named(before) if before is not None else None,
             "status": "unchanged" if same else "rolled back", "changes": changed}
    which = f"{path} means version {now.version} ({now.digest[:12]})"
    was = f", before {before.version} ({before.digest[:12]})" if before is not None else ""
    line = f"unchanged: {which}" if same else f"{which}{was}: {catalogue.few(changed)}"
    render.document(found, output, "path", lambda: click.echo(line.removesuffix(": ")))
    return exits.OK


@command.command("delete", epilog="Example: noetlctl playbook delete examples/hello --version 1")
@PATH
@click.option("--version", default="", shell_complete=completions.versions,
              help="This one alone; all of them unless given.")
@options.yes
@render.option()
@context.option
def delete(path: str, version: str, yes: bool, output: str, context_file: Path | None) -> int:
    """Take a playbook, or one version of it, out of the catalogue.

    Nothing new is started by it. What runs goes on: sources are kept, and `playbook rollback --to DIGEST` brings one
    back.
    """
    from services.cli.console import run_async

    return run_async.run(_delete(path, version, yes, output, context_file))


async def _delete(path: str, version: str, yes: bool, output: str, context_file: Path | None) -> int:
    from services.cli.executions.control_requests import me
    from services.cli.playbooks import catalogue
    from shared.runtime.stores import catalog_versions
    from shared.runtime.stores.catalog import NotRegistered

    async with context.connected(context.find(context_file)) as bus:
        known = await catalogue.versions(bus, path)
        wanted = version or ", ".join(known.versions)
        if wanted and (not version or version in known.versions):
            confirmed(f"delete {path} version {wanted}{await _callers(bus, path)}", yes)
        try:
            gone, left = await catalog_versions.delete(bus, path, version, me())
        except NotRegistered as error:
            raise CliError(str(error), exits.NOT_FOUND) from None
    found = {"path": path, "deleted": [_named(each) for each in gone], "latest": left.version if left else None,
             "status": "deleted"}
    which = ", ".join(f"{each.version} ({each.digest[:12]})" for each in gone)
    now = f"; {path} means version {left.version} now" if left else ""
    render.document(found, output, "path", lambda: click.echo(f"deleted {path} version {which}{now}"))
    return exits.OK


async def _callers(bus: "Bus", path: str) -> str:
    """Schedules, triggers and playbooks that would start it."""
    from services.cli import nouns
    from services.cli.playbooks import catalogue

    users = [f"schedule {row['name']}" for row in await nouns.schedules(bus) if row["playbook"] == path]
    users += [f"trigger {row['name']}" for row in await nouns.triggers(bus) if row["playbook"] == path]
    users += [f"playbook {caller}" for caller in await catalogue.callers(bus, path) if caller != path]
    return f", which {', '.join(users)} would start" if users else ""
