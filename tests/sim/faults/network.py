"""The clients of the simulated broker, and the faults on the way to it and back."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from shared.bus import topology
from shared.bus.codes import WRONG_LAST_SEQUENCE_CONSTANT, ApiError, error_of
from shared.bus.memory.broker import Faults, MemoryBroker
from shared.bus.memory.bus import MemoryBus, MemoryConsumer, MemoryDelivery, MemoryFollower, MemoryInbox
from shared.bus.ports import Message
from shared.bus.replicas import ReplicaReader
from shared.errors import NoetlError, Unknown
from shared.events import subjects
from tests.sim.clients import Client
from tests.sim.faults.replicas import SimCopies
from tests.sim.leases import Leases
from tests.sim.loop import now

TIMEOUT_S = 2.0  # a publish without an answer
LAG = 4  # messages
STALE_S = 0.5
LISTENING = ("deliver", "take")


class Odds(NamedTuple):
    """Chances per operation."""

    lost_request: float = 0.0
    lost_answer: float = 0.0
    slow: float = 0.0
    ghost: float = 0.0  # an acknowledged message that comes back later
    late: float = 0.0  # applied when the sender has long given up
    stale: float = 0.0  # a worker's read answered by a replica that lags behind
    holes: float = 0.0  # a direct get is answered by a replica that is behind; 0: there is one server
    crossed: float = 0.0  # a refusal on a cluster although nothing conflicts: two writes crossed


class Network(Faults):
    """`crash(name)` is called in the middle of an operation of a client whose time has come."""

    def __init__(self, rng: random.Random, crash: Callable[[str], None]) -> None:
        self._rng, self._crash = rng, crash
        self.clients: dict[str, Client] = {}
        self.leases = Leases()
        self.odds = Odds()
        self.operations = 0
        self.deaf_to: set[tuple[str, str]] = set()  # operations and subjects that nobody answers
        self.lagging: set[str] = set()  # clients whose every read lags
        self.apart: set[str] = set()  # clients on the other side of a split
        self.stored_at: dict[tuple[str, int], float] = {}  # whatever the broker's clock said
        self.stops: dict[str, float] = {}  # who is about to send this fresh command is stopped, for so many seconds
        self.on_ack: Callable[[str], None] = lambda _subject: None
        self.trace: Callable[[str], None] | None = None

    async def before(self, operation: str, client: str, subject: str) -> None:
        await self._pass(operation, client)
        odds = self.odds
        await self._hear(operation, client, subject)
        if (operation, subject) in self.deaf_to:
            raise Unknown(f"{operation} {subject}: no answer")
        if odds.lost_request and self._rng.random() < odds.lost_request and client in self.clients:
            self._tell(f"lost request  {client} {operation} {subject}")
            self.clients[client].held_up.append(now())
            if operation != "send":  # a sender goes on meanwhile
                await asyncio.sleep(TIMEOUT_S)
            raise Unknown(f"{operation} {subject}: no answer")
        if operation == "ack" and odds.ghost and self._rng.random() < odds.ghost:
            self.on_ack(subject)

    async def after(self, operation: str, client: str, subject: str) -> None:
        if operation not in LISTENING:
            self.pause(operation, client, subject)
        await self._pass(operation, client)
        odds = self.odds
        if client in self.clients and operation in LISTENING and not await self.clients[client].line.arrives():
            raise Unknown(f"{operation} {subject}: lost with the connection")
        if odds.lost_answer and self._rng.random() < odds.lost_answer and client in self.clients:
            self._tell(f"lost answer   {client} {operation} {subject}")
            self.clients[client].held_up.append(now())
            await asyncio.sleep(TIMEOUT_S)
            raise Unknown(f"{operation} {subject}: no answer")

    async def _hear(self, operation: str, name: str, subject: str) -> None:
        """On a silent line a request gets no answer in time. What listens goes on listening, and what is sent is late
        or lost (`is_late`)."""
        client = self.clients.get(name)
        if client is None or not client.line.silent_s or operation in (*LISTENING, "send"):
            return
        self._tell(f"silent        {name} {operation} {subject}")
        in_time = client.line.silent_s < TIMEOUT_S
        await asyncio.sleep(min(client.line.silent_s, TIMEOUT_S))
        if not in_time or not await client.line.arrives():
            raise Unknown(f"{operation} {subject}: no answer")

    def pause(self, operation: str, name: str, subject: str) -> None:
        """At a bad moment: just given a command, or about to say what it has seen."""
        client = self.clients.get(name)
        if client is not None and (seconds := client.pauses.pop(operation, 0.0)):
            self._tell(f"pause         {name} after {operation} {subject}, {seconds:.1f} s")
            client.pause(seconds)

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
            client.held_up.append(now())
            await asyncio.sleep(self._rng.expovariate(2.0))
        elif dice < 0.5 and operation != "deliver":
            await asyncio.sleep(dice / 100)

    def is_late(self, client: str, subject: str) -> float:
        """After how many seconds a message arrives that its sender gives up; 0: it is not late."""
        sender = self.clients.get(client)
        if sender is not None and sender.line.silent_s:
            return sender.line.silent_s
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

    def replica_lags(self) -> int:
        """By how many messages the replica is behind that answers."""
        return self._rng.choice((1, 2, LAG)) if self._rng.random() < self.odds.holes else 0

    def crosses(self, client: str, subject: str) -> bool:
        if not self.odds.crossed or client not in self.clients or self._rng.random() > self.odds.crossed:
            return False
        self._tell(f"crossed       {client} {subject}")
        return True

    def reaches(self, sender: str, listener: str, subject: str) -> bool:
        """Members on two sides of a split do not hear each other."""
        if not subject.startswith(subjects.MEMBERS):
            return True
        return (sender in self.apart) == (listener in self.apart)

    def _tell(self, text: str) -> None:
        if self.trace is not None:
            self.trace(text)


class SimBus(MemoryBus):
    """A bus on which an append may be applied after its sender was told that nobody answers, a read may be answered
    by replicas that lag behind, and a refusal may mean nothing."""

    def __init__(self, broker: MemoryBroker, name: str, network: Network) -> None:
        super().__init__(broker, name)
        self._network, self.client, self.leases = network, network.clients[name], network.leases

    @property
    def connections(self) -> int:
        return super().connections + self.client.line.reconnects

    async def send(
        self, subject: str, data: bytes, *, expected: int | None = None, headers: dict[str, str] | None = None,
        on: int | None = None,
    ) -> "asyncio.Future[int]":
        if on is not None and (seconds := self._network.stops.pop(subject, 0.0)):
            self.client.pause(seconds)
        return await super().send(subject, data, expected=expected, headers=headers, on=on)

    async def read(self, stream: str, filters: Sequence[str], after: int = 0) -> list[Message]:
        if self._network.odds.holes:
            copies = SimCopies(self, self._network.replica_lags)
            found = await ReplicaReader(copies).read(stream, filters, after)
        else:
            found = await super().read(stream, filters, after)
        return self._shown(stream, found, self._network.lags_by(self.name, stream))

    def _shown(self, stream: str, found: list[Message], lags: int) -> list[Message]:
        """A replica is behind by moments; only one that a story holds back is by more."""
        if not lags:
            return found
        held = self.broker.streams[stream]
        oldest = 0 if self.name in self._network.lagging else (self.broker.wall() - STALE_S) * 1e9
        return [m for m in found if m.seq <= held.last - lags or held.stored[m.seq].timestamp < oldest]

    def _store(self, subject: str, data: bytes, expected: int | None, headers: dict[str, str] | None) -> int:
        if expected is not None and self._network.crosses(self.name, subject):
            raise crossed(subject)
        delay = self._network.is_late(self.name, subject)
        if not delay:
            return self._stored(subject, super()._store(subject, data, expected, headers))
        sent = self.connections, subject, data, expected, headers
        asyncio.get_running_loop().call_later(delay, self._store_late, *sent)
        raise Unknown(f"{subject}: no answer")

    def _store_late(
        self, connections: int, subject: str, data: bytes, expected: int | None, headers: dict[str, str] | None
    ) -> None:
        """What was under way on a connection is gone with it when the broker restarts."""
        if connections == self.connections:
            with suppress(NoetlError):
                self._stored(subject, super()._store(subject, data, expected, headers))

    def _stored(self, subject: str, seq: int) -> int:
        self._network.stored_at.setdefault((subject, seq), now())
        return seq

    def _publish(self, subject: str, data: bytes, headers: dict[str, str] | None = None) -> None:
        """A word of core NATS is lost on a silent line, and at the line through a split network."""
        if self.client.line.silent_s or self.broker.is_down:
            return
        for name, queue in self.broker.hearers(subject):
            if self._network.reaches(self.name, name, subject):
                queue.put_nowait(Message(subject, data, 0, headers))

    async def subscribe(self, subject: str, *, group: str = "") -> "SimInbox":
        return SimInbox(self, subject, self.client, group)

    async def consume(self, stream: str, durable: str, prefetch: int, *, keep: bool = False) -> "SimConsumer":
        return SimConsumer(self, stream, durable)

    def follow(self, stream: str, filters: Sequence[str], after: int, *, lazy: bool = False) -> "SimFollower":
        return SimFollower(self, stream, tuple(filters) or (">",), after)

    def pause(self, operation: str, subject: str) -> None:
        self._network.pause(operation, self.name, subject)


class SimConsumer(MemoryConsumer):
    """The client may be stopped just as it is given something."""

    def __init__(self, bus: SimBus, stream: str, durable: str) -> None:
        super().__init__(bus, stream, durable)
        self._sim, self._leases = bus, bus.leases if stream == topology.COMMANDS else Leases()

    async def batch(self, limit: int) -> Sequence[MemoryDelivery]:
        taken = await super().batch(limit)
        for delivery in taken:
            self._leases.arrived((delivery.seq, delivery.epoch[0]), self._sim.client, now())
        return taken

    def _take(self, limit: int) -> list[MemoryDelivery]:
        queue = self._sim.broker.queue(self._stream, self._durable)
        ended = {} if queue is None else dict(queue.free_at)
        taken = [SimDelivery(self._leases, delivery) for delivery in super()._take(limit)]
        for delivery in taken:
            at = ended.get(delivery.seq, now())
            message = (delivery.seq, delivery.epoch[0])
            self._leases.given(message, delivery.epoch[1])
            self._leases.given_again(message, delivery.subject, at)
        if taken:
            self._sim.pause("take", taken[0].subject)
        return [*taken]


class SimDelivery(MemoryDelivery):
    """Whoever has it says that it lets it go."""

    def __init__(self, leases: Leases, given: MemoryDelivery) -> None:
        self.__dict__.update(given.__dict__)
        self._leases = leases

    async def ack(self) -> None:
        self._leases.let_go((self.seq, self.epoch[0]))
        await super().ack()

    async def nak(self, delay: float = 0.0) -> None:
        self._leases.let_go((self.seq, self.epoch[0]))
        await super().nak(delay)


class SimFollower(MemoryFollower):
    def _arrived(self) -> list[Message]:
        arrived = super()._arrived()
        if arrived:
            assert isinstance(self._bus, SimBus)
            self._bus.pause("deliver", arrived[0].subject)
        return arrived


class SimInbox(MemoryInbox):
    """A frozen client hears nothing until it goes on; one whose line is silent hears it late, or never."""

    def __init__(self, bus: SimBus, subject: str, client: Client, group: str = "") -> None:
        super().__init__(bus, subject, group)
        self._client = client

    async def next(self) -> bytes:
        return (await self.message()).data

    async def message(self) -> Message:
        while True:
            message = await super().message()
            heard = await self._client.line.arrives()
            await self._client.awake()
            if heard:
                return message


def crossed(subject: str) -> NoetlError:
    """What a writer is told on a cluster when another's write to the subject is under way."""
    return error_of(ApiError(400, WRONG_LAST_SEQUENCE_CONSTANT, "wrong last sequence"), subject)
