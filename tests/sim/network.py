"""The clients of the simulated broker, and the faults on the way to it and back."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from shared.bus.memory import MemoryBus
from shared.bus.memory_broker import Faults, MemoryBroker
from shared.bus.ports import Message
from shared.errors import NoetlError, Unknown
from shared.events import subjects
from tests.sim.loop import now

TIMEOUT_S = 2.0  # a publish without an answer
LAG = 4  # messages


class Client:
    """One incarnation of a service: it can be frozen and go on later, or die."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.clock = ClientClock(self)
        self.crash_after = -1  # operations
        self._thaw: asyncio.Event | None = None

    def freeze(self) -> None:
        self._thaw = self._thaw or asyncio.Event()

    def thaw(self) -> None:
        if self._thaw is not None:
            self._thaw.set()
            self._thaw = None

    async def awake(self) -> None:
        """Returns at once for a healthy client, later for a frozen one, never for a dead one."""
        while self._thaw is not None:
            await self._thaw.wait()
        if self.dead:
            await asyncio.get_running_loop().create_future()


class ClientClock:
    def __init__(self, client: Client) -> None:
        self._client = client

    def now(self) -> float:
        return now()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._client.awake()


class Odds(NamedTuple):
    """Chances per operation."""

    lost_request: float = 0.0
    lost_answer: float = 0.0
    slow: float = 0.0
    ghost: float = 0.0  # an acknowledged message that comes back later
    late: float = 0.0  # applied when the sender has long given up
    stale: float = 0.0  # a worker's read answered by a replica that lags behind


class Network(Faults):
    """`crash(name)` is called in the middle of an operation of a client whose time has come."""

    def __init__(self, rng: random.Random, crash: Callable[[str], None]) -> None:
        self._rng, self._crash = rng, crash
        self.clients: dict[str, Client] = {}
        self.odds = Odds()
        self.operations = 0
        self.deaf_to: set[tuple[str, str]] = set()  # operations and subjects that nobody answers
        self.lagging: set[str] = set()  # clients whose every read lags
        self.on_ack: Callable[[str], None] = lambda _subject: None
        self.trace: Callable[[str], None] | None = None

    async def before(self, operation: str, client: str, subject: str) -> None:
        await self._pass(operation, client)
        odds = self.odds
        if (operation, subject) in self.deaf_to:
            raise Unknown(f"{operation} {subject}: no answer")
        if odds.lost_request and self._rng.random() < odds.lost_request and client in self.clients:
            self._tell(f"lost request  {client} {operation} {subject}")
            if operation != "send":  # a sender goes on meanwhile
                await asyncio.sleep(TIMEOUT_S)
            raise Unknown(f"{operation} {subject}: no answer")
        if operation == "ack" and odds.ghost and self._rng.random() < odds.ghost:
            self.on_ack(subject)

    async def after(self, operation: str, client: str, subject: str) -> None:
        await self._pass(operation, client)
        odds = self.odds
        if odds.lost_answer and self._rng.random() < odds.lost_answer and client in self.clients:
            self._tell(f"lost answer   {client} {operation} {subject}")
            await asyncio.sleep(TIMEOUT_S)
            raise Unknown(f"{operation} {subject}: no answer")

    async def _pass(self, operation: str, name: str) -> None:
        self.operations += 1
        client = self.clients.get(name)
        if client is None:
            return
        await client.awake()
        if client.crash_after > 0:
            client.crash_after -= 1
            if client.crash_after == 0:
                self._tell(f"crash         {name} in {operation}")
                self._crash(name)
                await client.awake()
        dice = self._rng.random()
        if dice < self.odds.slow:
            await asyncio.sleep(self._rng.expovariate(2.0))
        elif dice < 0.5 and operation != "deliver":
            await asyncio.sleep(dice / 100)

    def is_late(self, client: str, subject: str) -> float:
        """After how many seconds a message arrives that its sender gives up; 0: it is not late."""
        if not self.odds.late or subject.startswith(subjects.REQUESTS) or self._rng.random() > self.odds.late:
            return 0.0
        self._tell(f"late          {client} {subject}")
        return self._rng.uniform(0.0, 2.0 * TIMEOUT_S)

    def lags_by(self, client: str, stream: str) -> int:
        """How many of the last messages the answering replica does not have yet. `Bus.read` promises all of
        them; a worker finds out by its own claim when it does not get them."""
        if client in self.lagging:
            return LAG
        if not self.odds.stale or not client.startswith("worker") or self._rng.random() > self.odds.stale:
            return 0
        self._tell(f"stale read    {client} {stream}")
        return self._rng.randint(1, LAG)

    def _tell(self, text: str) -> None:
        if self.trace is not None:
            self.trace(text)


class SimBus(MemoryBus):
    """A bus on which an append may be applied after its sender was told that nobody answers, and a read
    may be answered by a replica that lags behind."""

    def __init__(self, broker: MemoryBroker, name: str, network: Network) -> None:
        super().__init__(broker, name)
        self._network = network

    async def read(self, stream: str, filters: Sequence[str], after: int = 0) -> list[Message]:
        found = await super().read(stream, filters, after)
        last = self.broker.streams[stream].last - self._network.lags_by(self.name, stream)
        return [message for message in found if message.seq <= last]

    def _store(self, subject: str, data: bytes, expected: int | None, headers: dict[str, str] | None) -> int:
        delay = self._network.is_late(self.name, subject)
        if not delay:
            return super()._store(subject, data, expected, headers)
        sent = self.connections, subject, data, expected, headers
        asyncio.get_running_loop().call_later(delay, self._store_late, *sent)
        raise Unknown(f"{subject}: no answer")

    def _store_late(
        self, connections: int, subject: str, data: bytes, expected: int | None, headers: dict[str, str] | None
    ) -> None:
        """What was under way on a connection is gone with it when the broker restarts."""
        if connections == self.connections:
            with suppress(NoetlError):
                super()._store(subject, data, expected, headers)
