"""Looks at all executions that are not over, for `why --all` and `get --stuck`."""

from typing import TYPE_CHECKING, NamedTuple

import click

from services.cli.console.exits import CliError
from services.cli.console.progress import patiently
from services.cli.executions import live
from services.cli.executions.selection import Selection
from services.cli.stack import context
from services.cli.why.many import Standing, ask_all

if TYPE_CHECKING:
    from services.cli.stack.context import Found


class Held(NamedTuple):
    standing: list[Standing]
    asked: int
    more: bool
    note: str

    def say(self) -> None:
        """On stderr: what is not in the answer."""
        if self.note:
            click.echo(self.note, err=True)
        if self.more:
            click.echo(f"the oldest {self.asked} were looked at, and there are more: --limit", err=True)


async def look(found: "Found", chosen: Selection, limit: int) -> Held:
    from services.cli.stack.broker_files import BrokerFiles
    from shared.bus.jetstream import JetStreamBus

    async with context.connected(found.settings) as bus:
        if not isinstance(bus, JetStreamBus):
            raise CliError("why asks a NATS server")
        alive = await live.find(bus, found.settings, chosen, limit)
        refusal = await BrokerFiles(found.folder).refusal(bus)
        asked = ask_all(bus, found.settings.partitions, alive.executions, refusal)
        standing = await patiently(asked, f"asking about {len(alive.executions)} executions")
    return Held(standing, len(alive.executions), alive.more, alive.note)
