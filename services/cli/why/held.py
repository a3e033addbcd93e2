"""Looks at all executions that are not over, and at those that were asked for and have not begun, for `why --all` and
`get --stuck`."""

from typing import TYPE_CHECKING, NamedTuple

import click

from services.cli.console.exits import CliError
from services.cli.console.progress import patiently
from services.cli.executions import live
from services.cli.executions.selection import Selection
from services.cli.stack import context
from services.cli.why import many, own_processes, unstarted
from services.cli.why.many import Standing, ask_all
from services.cli.why.world import Around
from shared.answers.why.facts import Answer

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
        answers = await patiently(asked, f"asking about {len(alive.executions)} executions")
        unbegun: list[Answer] = []
        more = False
        if chosen._replace(path="") == Selection():  # no request has a status or a start
            around = Around(bus, found.settings.partitions)
            unbegun, more = await unstarted.waiting(bus, around, chosen.path, limit)
    explained = (own_processes.explained(answer, found.folder) for answer in (*answers, *unbegun))
    standing = [each for each in map(many.standing, explained) if each is not None]
    return Held(standing, len(answers) + len(unbegun), alive.more or more, alive.note)
