"""Playbooks of the catalogue, as the commands about them show them."""

from collections.abc import Sequence

from services.cli.console import exits
from services.cli.console.exits import CliError
from shared.bus.ports import Bus
from shared.dsl.authoring import revision
from shared.runtime.stores import catalog, catalog_versions
from shared.runtime.stores.catalog import Entry, NotRegistered

MAX_CHANGES = 6  # in a line


async def versions(bus: Bus, path: str) -> catalog_versions.Versions:
    """Ends the command with 7 when the path was never there."""
    try:
        return await catalog_versions.of(bus, path)
    except NotRegistered as error:
        raise CliError(str(error), exits.NOT_FOUND) from None


async def one(bus: Bus, path: str, version: str) -> Entry:
    """The latest without a version; a digest of the history will do for one."""
    known = await versions(bus, path)
    if not version and known.latest is None:
        raise CliError(f"no playbook {path!r} is registered any more (noetlctl playbook history {path})",
                       exits.NOT_FOUND)
    try:
        return catalog_versions.one(known, version) if version else known.latest or Entry(path, "", "")
    except NotRegistered as error:
        raise CliError(str(error), exits.NOT_FOUND) from None


async def source(bus: Bus, entry: Entry) -> bytes:
    try:
        return await catalog.source(bus, entry.digest)
    except NotRegistered as error:
        raise CliError(str(error), exits.NOT_FOUND) from None


async def changes(bus: Bus, before: Entry | None, new: bytes) -> list[str]:
    """What differs from a registered source; nothing where there is none."""
    if before is None:
        return []
    try:
        return revision.changes(await catalog.source(bus, before.digest), new)
    except NotRegistered:
        return []


def few(found: Sequence[str]) -> str:
    more = f"; {len(found) - MAX_CHANGES} more" if len(found) > MAX_CHANGES else ""
    return "; ".join(found[:MAX_CHANGES]) + more
