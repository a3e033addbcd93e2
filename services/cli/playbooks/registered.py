"""The playbook that a request names: whether it is registered, and which one is meant when it is not."""

from typing import TYPE_CHECKING

from services.cli.console import exits
from services.cli.console.exits import CliError

if TYPE_CHECKING:
    from shared.bus.ports import Bus
    from shared.runtime.stores.catalog import Entry

NAMED = 10  # versions in a message


async def expect(bus: "Bus", path: str, version: str) -> "Entry":
    """Exit code 7, with the nearest name, before anything is asked for."""
    from shared.runtime.stores import catalog

    try:
        return await catalog.find(bus, path, version)
    except catalog.NotRegistered as error:
        raise CliError(f"{error}{await _hint(bus, path)}", exits.NOT_FOUND) from None


async def _hint(bus: "Bus", path: str) -> str:
    from shared.dsl.read.reader import nearest
    from shared.runtime.stores import catalog

    known = [entry for entry, _ in await catalog.everything(bus)]
    if versions := [entry.version for entry in known if entry.path == path]:
        return f": {path} has version {', '.join(versions[-NAMED:])}"
    near = nearest(path, sorted({entry.path for entry in known}))
    return f": did you mean {near}?" if near else " (`noetlctl get playbooks` lists them)"
