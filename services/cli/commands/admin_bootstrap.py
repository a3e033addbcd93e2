"""noetlctl admin bootstrap: makes on a broker all that the engine needs."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli.console import exits, render
from services.cli.console.exits import CliError
from services.cli.stack import context

if TYPE_CHECKING:
    from services.cli.admin.bootstrap import Thing, Wish
    from shared.bus.jetstream import JetStreamBus
    from shared.runtime.service.settings import Settings

AGAIN_S = 1.0
COLUMNS = (
    render.Column("KIND", "kind"),
    render.Column("NAME", "name"),
    render.Column("STATE", "state"),
    render.Column("FIELD", "field"),
    render.Column("WANTED", "wanted"),
    render.Column("FOUND", "found"),
    render.Column("NOTE", "note"),
)


@click.command("bootstrap", epilog="Example: noetlctl admin bootstrap -f pools/")
@click.option("-f", "--file", "files", multiple=True, metavar="FILE|FOLDER",
              type=click.Path(path_type=Path, exists=True), help="Pool documents; may be repeated.")
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 when something is missing or differs.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True, metavar="S",
              help="Wait so long for the broker to answer and to have a leader.")
@render.option("table", "json", "yaml")
@context.option
def command(files: tuple[Path, ...], check: bool, timeout: float, output: str, context_file: Path | None) -> int:
    """Make streams, buckets, consumers and pools on a broker that `noetlctl up` did not start.

    May be run again at any time: what is there stays. A setting that differs is shown, and changed where nothing is
    lost by it. NOETL_PARTITIONS, NOETL_REPLICAS, NOETL_PLACEMENT, NOETL_MAX_BYTES and NOETL_POOLS say what is wanted.
    """
    from services.cli.console import run_async

    return run_async.run(_bootstrap(files, check, timeout, output, context_file))


async def _bootstrap(
    files: tuple[Path, ...], check: bool, timeout: float, output: str, context_file: Path | None
) -> int:
    from services.cli.admin.bootstrap import Wish
    from services.cli.pools import documents
    from services.cli.stack.broker_away import Patience
    from shared.bus.jetstream import JetStreamBus
    from shared.runtime.service.provision import provision

    settings = context.find(context_file)
    wish = Wish(partitions=settings.partitions, provision=provision(settings), pools=settings.pools,
                documents=documents.in_places(files), retention=settings.retention)
    until = asyncio.get_running_loop().time() + timeout
    async with context.connected(settings, Patience(timeout)) as bus:
        assert isinstance(bus, JetStreamBus), "a broker of somebody's"
        _check_server(bus)
        found = await _done(bus, wish, check, until)
        server = str(bus.connection._server_info.get("version", ""))
    _show(found, _shape(found, settings, server, check), output)
    return exits.ERROR if check and any(_is_open(each) for each in found) else exits.OK


def _check_server(bus: "JetStreamBus") -> None:
    """What no stream shows: the engine would be made, and then refused."""
    from services.cli.doctor import versions

    info = bus.connection._server_info
    for finding in (versions.server(str(info.get("version", ""))), versions.payload(int(info.get("max_payload", 0)))):
        if finding.status == "problem":
            raise CliError(f"{finding.found}: {finding.why}; {finding.fix}")


async def _done(bus: "JetStreamBus", wish: "Wish", check: bool, until: float) -> "list[Thing]":
    """A cluster that is just coming up has no leader for a while; what a setting refuses is not tried again."""
    from services.cli.admin import bootstrap
    from shared.bus.codes import broker_setting
    from shared.errors import NoetlError, Unavailable

    while True:
        try:
            return await (bootstrap.look if check else bootstrap.make)(bus, wish)
        except NoetlError as error:
            setting = broker_setting(str(error))
            passes = isinstance(error, Unavailable) and (not setting or bus.connection.is_clustered)
            if not passes or asyncio.get_running_loop().time() + AGAIN_S > until:
                raise CliError(f"{error}" + (f": {setting}" if setting else "")) from None
        await asyncio.sleep(AGAIN_S)


def _is_open(each: "Thing") -> bool:
    return each.state in ("missing", "differs", "left")


def _shape(found: "list[Thing]", settings: "Settings", server: str, check: bool) -> dict[str, Any]:
    import msgspec

    states = [each.state for each in found]
    counts = {state: states.count(state) for state in dict.fromkeys(states)}
    return {
        "server": server, "partitions": settings.partitions, "replicas": settings.replicas,
        "placement": list(settings.placement), "max_bytes": list(settings.max_bytes), "checked_only": check,
        "ok": not any(_is_open(each) for each in found), "counts": counts,
        "things": [msgspec.to_builtins(each) for each in found],
    }


def _show(found: "list[Thing]", shape: dict[str, Any], output: str) -> None:
    if not render.is_text(output):
        render.document(shape, output, "server", lambda: None)
        return
    rows = [row for each in found if each.state != "there" for row in _rows(each)]
    if rows:
        render.rows(rows, COLUMNS, output, "name")
    words = ", ".join(f"{count} {state}" for state, count in shape["counts"].items())
    click.echo(f"{len(found)} streams, buckets, consumers and pools: {words}", err=bool(rows))


def _rows(each: "Thing") -> list[dict[str, Any]]:
    """A line for each field that differs."""
    base: dict[str, Any] = {"kind": each.kind, "name": each.name, "note": each.note}
    if not each.drift:
        return [{**base, "state": each.state, "field": "", "wanted": "", "found": ""}]
    return [
        {**base, "state": "changed" if drift.applied else "differs", "field": drift.field,
         "wanted": render.text(drift.wanted), "found": render.text(drift.found)}
        for drift in each.drift
    ]
