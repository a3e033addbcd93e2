"""noetlctl admin retention: how long things are kept. Services keep to it by themselves."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli.console import exits, options, render
from services.cli.console.exits import CliError
from services.cli.stack import context

if TYPE_CHECKING:
    from shared.runtime.stores.retention import Policy

COLUMNS = (render.Column("WHAT", "what"), render.Column("KEPT", "kept"), render.Column("COUNTED FROM", "since"),
           render.Column("REMOVED BY", "by"))
SINCE = {"results": "the end of the execution", "read_model": "the end of the execution",
         "requests": "when it was asked", "dead_letters": "when it was written"}
BY = {"results": "a projector", "read_model": "a projector", "requests": "the broker", "dead_letters": "the broker"}


@click.group("retention", epilog="Example: noetlctl admin retention set results=30d read_model=90d")
def command() -> None:
    """How long results, the read model, requests and dead letters are kept.

    One document for the stack; what NOETL_RETENTION says holds where there is none. The log itself is kept.
    """


@command.command("show", epilog="Example: noetlctl admin retention show -o json")
@render.option("table", "json", "yaml")
@context.option
def show(output: str, context_file: Path | None) -> int:
    """Say how long everything is kept, and who said so."""
    from services.cli.console import run_async

    return run_async.run(_show(output, context_file))


async def _show(output: str, context_file: Path | None) -> int:
    from shared.runtime.stores.retention import policy

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        _print(await policy(bus, settings.retention), [], output)
    return exits.OK


@command.command("set", epilog="Examples: noetlctl admin retention set results=30d read_model=90d   "
                 "noetlctl admin retention set requests=never --yes")
@click.argument("given", metavar="WHAT=TIME…", nargs=-1, required=True)
@options.yes
@render.option("table", "json", "yaml")
@context.option
def change(given: tuple[str, ...], yes: bool, output: str, context_file: Path | None) -> int:
    """Set how long results, read_model, requests and dead_letters are kept: 30d, 12h, 90m, or never (for ever).

    What is not named stays as it is. What is older than a shorter time goes soon, and does not come back.
    """
    from services.cli.console import run_async
    from services.cli.console.confirm import confirmed
    from shared.runtime.service.retention import BadRetention, named

    try:
        named(given)
    except BadRetention as error:
        raise CliError(str(error), exits.USAGE) from None
    confirmed(f"keep {', '.join(given)}, and remove what is older", yes)
    return run_async.run(_set(given, output, context_file))


async def _set(given: tuple[str, ...], output: str, context_file: Path | None) -> int:
    from services.cli.executions.control_requests import me
    from shared.bus import streams
    from shared.bus.jetstream import JetStreamBus
    from shared.runtime.service.retention import BadRetention
    from shared.runtime.stores import retention

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        assert isinstance(bus, JetStreamBus)
        try:
            now = await retention.change(bus, given, settings.retention, me())
        except BadRetention as error:
            raise CliError(str(error), exits.USAGE) from None
        changed = await streams.keep(bus, now.kept.ages())
    _print(now, changed, output)
    return exits.OK


def _print(now: "Policy", changed: list[str], output: str) -> None:
    from shared.events.stamp import stamp
    from shared.runtime.service.retention import LEAST, shown
    from shared.runtime.stores.retention import described

    found: dict[str, Any] = {
        "kept": dict(described(now)), "revision": now.revision, "at": stamp(now.at) if now.at else None,
        "by": now.by or None, "streams": changed,
    }
    rows = [{"what": name, "kept": shown(getattr(now.kept, name)), "since": SINCE[name], "by": BY[name]}
            for name in LEAST]

    def text() -> None:
        render.rows(rows, COLUMNS, "table", "what")
        said = f"set by {now.by} at {found['at']}" if now.revision else "by NOETL_RETENTION, or as it is unless given"
        click.echo(said, err=True)

    render.document(found, output, "revision", text)
