"""Who owns a partition: live members of a service share them by rendezvous hashing.

A member says so every second, a newcomer is answered at once, one that is silent for 3.5 s is
forgotten. Two members may believe they own the same partition for a moment: the expected sequence
of every append makes that harmless.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import blake2b
from typing import Literal

import msgspec
import structlog
from msgspec import Struct

from shared.bus.ports import Bus, Clock, Inbox
from shared.errors import Corrupt, Unavailable
from shared.events import subjects
from shared.events.bounds import MAX_WORD_BYTES, Name
from shared.events.decoding import read

BEAT_S = 1.0
HELLO_S = 0.1  # by then the others have answered
SILENCE_S = 3.5
MAX_MEMBERS = 1000
log = structlog.get_logger()


class Notice(Struct, frozen=True, omit_defaults=True):
    """`hello` asks the others to say that they are here; `bye` is a graceful leave. `skew`: by how many seconds its
    host's clock is ahead of the broker's."""

    instance: Name
    kind: Literal["hello", "here", "bye"]
    skew: float = 0.0


_decoder = msgspec.json.Decoder(Notice)


def decode(data: bytes) -> Notice:
    return read(_decoder, data, "a word of a member", MAX_WORD_BYTES)


def owner_of(partition: int, members: Iterable[str]) -> str:
    """Every member computes the same; a member that leaves moves only its own partitions."""
    return max(members, key=lambda member: blake2b(f"{member}/{partition}".encode(), digest_size=8).digest())


class Membership:
    def __init__(
        self,
        bus: Bus,
        service: str,
        instance: str,
        partitions: int,
        clock: Clock,
        on_change: Callable[[], None],
    ) -> None:
        self._bus, self._subject, self._instance = bus, subjects.member(service), instance
        self._partitions, self._clock, self._on_change = partitions, clock, on_change
        self._seen: dict[str, float] = {}
        self._owned: frozenset[int] = frozenset()
        self._inbox: Inbox | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def owned(self) -> frozenset[int]:
        return self._owned

    @property
    def members(self) -> frozenset[str]:
        return frozenset((*self._seen, self._instance))

    async def start(self) -> None:
        """When it returns, `owned` is what this member should serve."""
        self._inbox = await self._bus.subscribe(self._subject)
        self._tasks.append(asyncio.create_task(self._listen(self._inbox)))
        await self._say("hello")
        await self._clock.sleep(HELLO_S)
        self._share()
        self._tasks.append(asyncio.create_task(self._beat()))

    async def stop(self) -> None:
        """Leaves at once, so that the others take over before the silence is noticed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._say("bye")
        if self._inbox is not None:
            await self._inbox.close()

    async def _beat(self) -> None:
        while True:
            await self._clock.sleep(BEAT_S)
            await self._say("here")
            self._share()

    async def _listen(self, inbox: Inbox) -> None:
        while True:
            try:
                notice = decode(await inbox.next())
            except Corrupt as error:
                log.warning("membership.unreadable", subject=self._subject, error=str(error))
                continue
            if notice.instance != self._instance and (notice.instance in self._seen or len(self._seen) < MAX_MEMBERS):
                await self._heard(notice)

    async def _heard(self, notice: Notice) -> None:
        if notice.kind == "bye":
            self._seen.pop(notice.instance, None)
        else:
            self._seen[notice.instance] = self._clock.now()
        if notice.kind == "hello":
            await self._say("here")
        self._share()

    def _share(self) -> None:
        oldest = self._clock.now() - SILENCE_S
        self._seen = {member: at for member, at in self._seen.items() if at > oldest}
        members = self.members
        mine = (p for p in range(self._partitions) if owner_of(p, members) == self._instance)
        owned = frozenset(mine)
        if owned != self._owned:
            self._owned = owned
            self._on_change()

    async def _say(self, kind: Literal["hello", "here", "bye"]) -> None:
        with suppress(Unavailable):
            notice = Notice(self._instance, kind, round(self._clock.skew, 1))
            await self._bus.publish(self._subject, msgspec.json.encode(notice))
