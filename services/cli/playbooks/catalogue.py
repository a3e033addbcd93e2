"""Playbooks of the catalogue, as the commands about them show them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from services.cli.console import exits
from services.cli.console.exits import CliError
from shared.bus.ports import Bus
from shared.dsl.authoring import revision
from shared.dsl.model.edition import plan_name
from shared.dsl.model.plan import Plan
from shared.errors import NoetlError
from shared.runtime.stores import catalog, catalog_versions
from shared.runtime.stores.catalog import Entry, NotRegistered
from shared.runtime.stores.plans import Plans
from shared.runtime.stores.readiness import needs_of

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


async def latest_plans(bus: Bus) -> AsyncIterator[tuple[str, Plan]]:
    """By path, what each means without a version."""
    plans = Plans(bus)
    for entry, is_latest in await catalog.everything(bus):
        if is_latest:
            with suppress(NoetlError):  # one that no longer compiles starts nothing
                yield entry.path, await plans.load(plan_name(entry.digest))


async def callers(bus: Bus, path: str) -> list[str]:
    """The playbooks that call it by name, or start it at their end."""
    return [
        name async for name, plan in latest_plans(bus)
        if path in {called[0] for called in needs_of(plan, ()).playbooks}
        or (plan.notify is not None and plan.notify.path == path)
    ]


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
