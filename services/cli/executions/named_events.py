"""The events of records as `events` prints them, by our names or by those of the formal specifications."""

from collections.abc import Sequence
from typing import Any

import click

from shared.answers.history.formal import FormalView, digests
from shared.bus.ports import Bus
from shared.dsl.model.plan import Plan
from shared.errors import Corrupt
from shared.events.record import Entry, envelopes
from shared.runtime.stores.catalog import NotRegistered
from shared.runtime.stores.plans import Plans


class Canonical:
    async def of(self, entries: Sequence[Entry]) -> list[dict[str, Any]]:
        return [{"seq": seq, **envelope} for seq, record in entries for envelope in envelopes(record)]


class InFormal:
    """Hand it the records of one execution in log order. It brings the playbook, which says what is a sink."""

    def __init__(self, bus: Bus) -> None:
        self._plans = Plans(bus)
        self._found: dict[str, Plan] = {}
        self._view = FormalView(self._found.get)

    async def of(self, entries: Sequence[Entry]) -> list[dict[str, Any]]:
        for digest in digests(record for _, record in entries):
            await self._bring(digest)
        return [{"seq": seq, **envelope} for seq, record in entries for envelope in self._view.of(record)]

    async def _bring(self, digest: str) -> None:
        try:
            self._found[digest] = await self._plans.load(digest)
        except (NotRegistered, Corrupt) as error:
            click.echo(f"warning: sinks and cases are shown as tools: {error}", err=True)
