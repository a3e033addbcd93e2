"""One name, one process. Names are keys: of a worker's beats, of a member's partitions, of a leader's lease. Two live
processes under one name would each be taken for the other.

1. *Whoever starts asks.* It says `hello` under its name and begins when nobody has answered for HELLO_S. A process
   that was killed does not answer, so its successor need not wait until it is forgotten.
2. *The first stays.* A process is *settled* when it has been there for SETTLE_S; until then it ends as soon as it hears
   of one that is settled, or that started before it. So the second of two ends, also when the first was slow to answer.
3. *Of two that are settled, the later stays.* The earlier one was away, stopped or cut off, while the other started;
   what it had is the other's by now. Schedulers see it so too (`services/scheduler/liveness.py`).
4. *Words may get lost*, so they are said again with every beat.

Whoever ends so ends by itself: nobody can be ended by a forged word but by those who have the credentials of its kind.
"""

import asyncio
import os
import secrets
import socket
from contextlib import suppress
from contextvars import ContextVar

import msgspec
import structlog
from msgspec import Struct

from shared.bus.permissions import worker_user
from shared.bus.ports import Bus, Clock, Inbox
from shared.errors import Corrupt, NoetlError, Unavailable
from shared.events import subjects
from shared.events.bounds import MAX_WORD_BYTES, BeatText, Unix
from shared.events.decoding import read

HELLO_S = 0.1
SETTLE_S = 3.0  # twice as long as the pause between two beats, and more
BEAT_S = 1.0
log = structlog.get_logger()


_lost: ContextVar[asyncio.Event | None] = ContextVar("lost", default=None)


class NameTaken(NoetlError):
    """Another live process has the name of this one."""


class Life(Struct, frozen=True, order=True):
    """What tells two processes under one name apart. They compare by when they started."""

    started: Unix
    id: BeatText


class Word(Struct, frozen=True):
    life: Life
    settled: bool
    host: BeatText
    pid: int


_decoder = msgspec.json.Decoder(Word)


def ends(mine: Life, settled: bool, other: Word) -> bool:
    """Whether the process that hears this, and not the one that said it, is the one to end (rules 2 and 3)."""
    if settled != other.settled:
        return other.settled
    return (other.life > mine) if settled else (other.life < mine)


def is_anothers() -> bool:
    """Whether this process ends because its name is another's: what stands under it is the other's too, and stays."""
    lost = _lost.get()
    return lost is not None and lost.is_set()


def user_of(service: str, pool: str) -> str:
    """Among whom a name is unique: instances of a service, or workers of a pool."""
    return worker_user(pool) if service == "worker" else service


class OneName:
    def __init__(self, bus: Bus, clock: Clock, user: str, instance: str) -> None:
        self._bus, self._clock, self._subject, self._instance = bus, clock, subjects.named(user, instance), instance
        self._life = Life(clock.now(), secrets.token_hex(8))
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._inbox: Inbox | None = None
        self._taken = asyncio.Event()
        _lost.set(self._taken)

    async def take(self) -> None:
        """Returns when the name is ours; raises NameTaken if another process has it."""
        self._inbox = await self._bus.subscribe(self._subject)
        await self._say()
        with suppress(TimeoutError):
            async with asyncio.timeout(HELLO_S):
                await self._listen(self._inbox)

    async def keep(self) -> None:
        """For ever; raises NameTaken when the name has become another's."""
        assert self._inbox is not None, "take it first"
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    await self._listen(self._inbox)
            await self._say()

    async def close(self) -> None:
        if self._inbox is not None:
            await self._inbox.close()

    async def _listen(self, inbox: Inbox) -> None:
        while True:
            try:
                word = read(_decoder, await inbox.next(), "a word under a name", MAX_WORD_BYTES)
            except Corrupt as error:
                log.warning("name.unreadable", subject=self._subject, error=str(error))
                continue
            if word.life.id == self._life.id:
                continue
            if ends(self._life, self._is_settled, word):
                self._taken.set()
                raise NameTaken(
                    f"another process (pid {word.pid} on {word.host}) is alive under the name {self._instance}: give "
                    "each instance a NOETL_INSTANCE of its own, or none, and it makes one")
            await self._say()

    @property
    def _is_settled(self) -> bool:
        return self._loop.time() - self._began > SETTLE_S

    async def _say(self) -> None:
        word = Word(self._life, self._is_settled, socket.gethostname()[:128], os.getpid())
        with suppress(Unavailable):
            await self._bus.publish(self._subject, msgspec.json.encode(word))
