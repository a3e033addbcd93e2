"""A world: the real services on the broker in memory, in virtual time, with seeded faults."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from services.router.service import Router
from services.scheduler.service import Scheduler
from services.worker.hold import Hold
from services.worker.service import Worker
from shared.bus import topology
from shared.bus.memory.bus import MemoryBroker, MemoryBus
from shared.bus.memory.stream import Stored
from shared.errors import Unavailable
from shared.events import subjects
from shared.events.request import Control, Request
from shared.runtime.service.clock import followed
from shared.runtime.service.settings import Settings
from shared.runtime.stores import catalog
from tests.sim.books.playbooks import BOOKS, Playbook, compiled
from tests.sim.clients import Client
from tests.sim.faults import chaos
from tests.sim.faults.clocks import ANY_S, Host, Machine
from tests.sim.faults.forging import forge
from tests.sim.faults.network import Network, Odds, SimBus
from tests.sim.loop import now
from tests.sim.tools import LEASE, Entry, FakeTools, Table

PARTITIONS = 2
DRAIN_S = 400.0
ASK_AGAIN_S = 60.0
STOP_S = 200.0  # a worker finishes what it holds
LATER_S = 3 * 3600.0
SLOW = next(book for book in BOOKS if book.name == "sim/slow")
SLOW_ODDS = 0.35  # somebody holds it for a while: most things go wrong then
MAX_OPERATIONS = 60_000  # of the broker, in one world


class SimWorker(Worker):
    """Tells the tools under which lease they are called."""

    async def _turn(self, hold: Hold) -> None:
        LEASE.set(hold.epoch)
        await super()._turn(hold)


class Asked:
    """A request: whoever publishes it, however often, one execution must follow."""

    def __init__(self, book: Playbook, payload: dict[str, Any], message_id: str, execution_id: str) -> None:
        self.book, self.payload = book, payload
        self.message_id, self.execution_id = message_id, execution_id
        self.cancelled = self.paused = False


class Process:
    """A place where a service runs, one incarnation after the other."""

    def __init__(self, kind: str, number: int) -> None:
        self.kind, self.name = kind, f"{kind}{number}"
        self.client: Client | None = None
        self.machine = Machine()
        self.task: asyncio.Task[None] | None = None
        self.stop = asyncio.Event()
        self.runs = 0


class World:
    def __init__(self, seed: int, trace: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.trace = trace
        self.network = Network(self.rng, self.crash)
        self.network.trace = self.tell if trace else None
        self.network.on_ack = self._remember
        self.ledger: list[Entry] = []
        self.table = Table()
        self.asked: list[Asked] = []
        self.problems: list[str] = []
        self.forged: set[tuple[int, int]] = set()  # partition and sequence of what no worker of ours wrote
        self.outages: list[tuple[float, float]] = []
        self.healed = False
        self.processes: list[Process] = []
        self.ghosts: list[tuple[str, Stored, int]] = []
        self.broker = MemoryBroker(_WorldClock(), topology.wanted(partitions=PARTITIONS), self.network)
        self.admin = MemoryBus(self.broker, "admin")

    def tell(self, text: str) -> None:
        if self.trace is not None:
            self.trace(f"{asyncio.get_running_loop().time():9.3f}  {text}")

    # -- the story ---------------------------------------------------------------------

    async def live(self) -> None:
        rng = self.rng
        await self.open(rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 4))
        span = rng.uniform(5.0, 30.0)
        asking = asyncio.create_task(self._ask(rng.randint(3, 8), span))
        forging = asyncio.create_task(forge(self, span))
        await chaos.rage(self, span)
        await asking
        await forging
        self.heal()
        await self.resume_paused()
        await self.drain("after the faults")
        if not self.problems and rng.random() < 0.5:
            await self.next_day()
        await self.stop_all()

    async def live_in_peace(self, asked: list[Asked]) -> None:
        """No faults at all: what the log looks like on a good day."""
        await self.open(1, 1, 1)
        self.asked = asked
        for each in asked:
            await self.publish(each)
        await self.drain("on a good day")
        await self.stop_all()

    async def open(self, routers: int, schedulers: int, workers: int) -> None:
        for book in BOOKS:
            plan = compiled(book.source).plan
            assert plan is not None, compiled(book.source).diagnostics
            await catalog.register(self.admin, book.source, plan)
        for kind, count in (("router", routers), ("scheduler", schedulers), ("worker", workers)):
            self.processes += [Process(kind, k) for k in range(count)]
        for process in self.processes:
            self.start(process)

    async def _ask(self, count: int, span: float) -> None:
        for k in range(count):
            await asyncio.sleep(self.rng.uniform(0, span / count))
            book = SLOW if self.rng.random() < SLOW_ODDS else self.rng.choice(BOOKS)
            number = self.rng.randint(1, 9)
            message_id, execution_id = self.rng.choice(((f"m{k}", ""), ("", f"e{k}"), ("", "")))
            asked = Asked(book, book.payload(number), message_id, execution_id)
            self.asked.append(asked)
            await self.publish(asked)
            if message_id + execution_id and self.rng.random() < 0.3:
                await asyncio.sleep(self.rng.uniform(0, 3))
                await self.publish(asked)
            if execution_id:
                await self._wish(asked)

    async def ask_for(self, name: str) -> Asked:
        book = next(book for book in BOOKS if book.name == name)
        asked = Asked(book, book.payload(9), "", f"s{len(self.asked)}")
        self.asked.append(asked)
        await self.publish(asked)
        return asked

    async def _wish(self, asked: Asked) -> None:
        """Someone wants the execution to wait, or to end."""
        wish = self.rng.random()
        await asyncio.sleep(self.rng.uniform(0, 2))
        if wish < 0.3:
            asked.cancelled = True
            await self.want(subjects.CANCEL, asked)
        elif wish < 0.5:
            asked.paused = True
            await self.want(subjects.PAUSE, asked)

    async def resume_paused(self, tries: int = 1) -> None:
        """Asked again later, as people do who were told that there is no such execution yet."""
        for asked in self.asked:
            if asked.paused:
                await self.want(subjects.RESUME, asked, tries=tries)

    async def want(self, subject: str, asked: Asked, tries: int = 1, **fields: Any) -> None:
        data = msgspec.json.encode(Control(asked.execution_id, by="sim", **fields))
        headers = {"Nats-Msg-Id": f"{subject}-{asked.execution_id}-{tries}"}
        while True:
            try:
                await self.admin.append(subject, data, headers=headers)
                break
            except Unavailable:
                await asyncio.sleep(1.0)
        self.tell(f"wish          {subject} {asked.execution_id}")

    async def publish(self, asked: Asked) -> None:
        """Any client that wants an execution: it tries until the broker has the request."""
        data = msgspec.json.encode(Request(asked.book.name, "", asked.payload, asked.execution_id))
        headers = {"Nats-Msg-Id": asked.message_id} if asked.message_id else None
        while True:
            try:
                await self.admin.append(subjects.EXECUTE, data, headers=headers)
                break
            except Unavailable:
                await asyncio.sleep(1.0)
        self.tell(f"request       {asked.book.name} {asked.message_id}{asked.execution_id}")

    async def next_day(self) -> None:
        """Everything stops; hours later the same requests come again, outside every window."""
        await self.stop_all()
        await asyncio.sleep(LATER_S)
        self.tell("the next day")
        for asked in self.asked:
            if asked.message_id or asked.execution_id:
                await self.publish(asked)
        for process in self.processes:
            self.start(process)
        await asyncio.sleep(8.0)
        await self.drain("on the next day")

    def heal(self) -> None:
        self.tell("the faults stop")
        self.healed = True
        self.network.odds = Odds()
        self.network.apart.clear()
        self.network.stops.clear()
        self.broker.set_down(False)
        for process in self.processes:
            if process.client is None or process.client.dead:
                self.start(process)
            else:
                process.client.crash_after = -1
        for client in self.network.clients.values():
            client.pauses.clear()
            client.line.speak()
            client.thaw()

    async def drain(self, when: str) -> None:
        """All executions must be over in bounded time."""
        loop = asyncio.get_running_loop()
        until, tries = loop.time() + DRAIN_S, 1
        while loop.time() < until and self.network.operations < MAX_OPERATIONS:
            if loop.time() > until - DRAIN_S + tries * ASK_AGAIN_S:
                tries += 1
                await self.resume_paused(tries)
            if self.waiting() is None:
                self.tell(f"drained       {when}")
                return
            await asyncio.sleep(0.25)
        how = "idle" if loop.time() >= until else "busy"
        self.problems.append(f"{how} for ever {when}: {self.waiting()}; the queue holds {self._queued()}")

    def _queued(self) -> list[str]:
        stream = self.broker.streams.get(topology.COMMANDS)
        return [] if stream is None else [stored.message.subject for stored in stream.stored.values()]

    def waiting(self) -> str | None:
        """What the world still waits for; None when it is done."""
        begun, over = set(), set()
        for partition in range(PARTITIONS):
            for stored in self.broker.streams[topology.events_stream(partition)].stored.values():
                subject = stored.message.subject
                if subject.endswith(".router"):
                    begun.add(subject)
                    if b'"playbook.processed"' in stored.message.data:
                        over.add(subject)
        known = {subject.split(".")[3] for subject in begun}
        asked = [each for each in self.broker.streams[topology.REQUESTS].stored.values() if not _is_early(each, known)]
        if asked:
            return f"{len(asked)} requests are not answered"
        left = sorted(subject.split(".")[3] for subject in begun - over)
        if left:
            return f"executions {left} are not over"
        told = len(self.broker.streams[topology.ENDS].stored)
        return f"of {len(over)} ends {told} are told" if told < len(over) else None

    # -- services ----------------------------------------------------------------------

    def start(self, process: Process, *, renamed: bool = False) -> None:
        process.runs += 1
        instance = f"{process.name}-{process.runs}" if renamed else process.name
        client = Client(f"{process.name}#{process.runs}")
        process.client, process.stop = client, asyncio.Event()
        self.network.clients[client.name] = client
        bus = SimBus(self.broker, client.name, self.network)
        settings = Settings(instance=instance, partitions=PARTITIONS, slots=self.rng.choice((1, 2, 4, 16)))
        self.tell(f"start         {client.name} as {instance}")
        process.task = asyncio.create_task(self._serve(process, client, bus, settings), name=client.name)
        process.task.add_done_callback(partial(self._ended, process, client))

    async def _serve(self, process: Process, client: Client, bus: SimBus, settings: Settings) -> None:
        async with followed(bus, ANY_S, process.stop, Host(process.machine, client.clock)) as clock:
            if clock is None:
                return
            service: Router | Scheduler | Worker
            match process.kind:
                case "router":
                    service = Router(bus, settings, clock)
                case "scheduler":
                    service = Scheduler(bus, settings, clock, self._remake)
                case _:
                    tools = FakeTools(client, self.ledger, self.rng, self.table, self.ends)
                    service = SimWorker(bus, settings, clock, tools)
            await service.run(process.stop, lambda: None)

    async def _remake(self) -> None:
        if self.broker.is_down:
            raise Unavailable("the broker does not answer")
        self.broker.ensure(topology.wanted(partitions=PARTITIONS))

    def _ended(self, process: Process, client: Client, task: "asyncio.Task[None]") -> None:
        """A service that ends by an error is started again, as any supervisor does."""
        if task.cancelled() or client.dead or process.stop.is_set():
            return
        self.tell(f"broke         {client.name}: {task.exception()!r}")
        self.problems.append(f"{client.name} broke: {task.exception()!r}")

    def ends(self) -> tuple[int, ...]:
        """How far each partition of the log is."""
        return tuple(self.broker.streams[topology.events_stream(p)].last for p in range(PARTITIONS))

    def crash(self, name: str) -> None:
        """Nothing of the client happens any more, from this very moment."""
        client = self.network.clients[name]
        client.dead = True
        self.broker.kill(name)
        process = next(p for p in self.processes if p.client is client)
        delay, renamed = self.rng.uniform(0, 8.0), self.rng.random() < 0.5
        asyncio.get_running_loop().call_later(delay, self._restart, process, renamed)

    def _restart(self, process: Process, renamed: bool) -> None:
        if process.client is not None and process.client.dead and not process.stop.is_set():
            self.start(process, renamed=renamed)

    async def stop_all(self) -> None:
        """A graceful stop of everything, which must not hang."""
        self.tell("stop")
        for process in self.processes:
            process.stop.set()
        tasks = {p.task for p in self.processes if p.task is not None and p.client is not None and not p.client.dead}
        _, left = await asyncio.wait(tasks, timeout=STOP_S)
        if left:
            self.problems.append(f"does not stop: {sorted(task.get_name() for task in left)}")
        for task in tasks - left:
            if not task.cancelled() and task.exception() is not None:
                self.problems.append(f"{task.get_name()} stopped with {task.exception()!r}")

    # -- ghosts ------------------------------------------------------------------------

    def _remember(self, subject: str) -> None:
        """This message is being acknowledged, and will come back all the same."""
        for (name, _), queue in self.broker.queues.items():
            stream = self.broker.streams[name]
            found = stream.newest(subject)
            if found is not None and stream.takes(subject):
                self.ghosts.append((name, stream.stored[found.seq], queue.deliveries.get(found.seq, 1)))
                asyncio.get_running_loop().call_later(self.rng.uniform(0.5, 20.0), self._return)
                return

    def _return(self) -> None:
        """The broker forgets that it was acknowledged, never how often it was delivered: it writes that down before it
        delivers, and who is given the message again has a lease of its own."""
        name, stored, delivered = self.ghosts.pop(0)
        current = self.broker.streams.get(name)
        seq = stored.message.seq
        if current is None or current.last < seq or seq in current.stored or self.broker.is_down:
            return
        self.tell(f"comes back    {stored.message.subject}")
        current.stored[seq] = stored
        current.by_subject.setdefault(stored.message.subject, []).insert(0, seq)
        for (stream_name, _), queue in self.broker.queues.items():
            if stream_name == name:
                given = self.network.leases.delivered if name == topology.COMMANDS else {}
                queue.deliveries[seq] = max(delivered, given.get((seq, stored.timestamp), 0))
                queue.free(seq, now())
        self.broker.wake()


class _WorldClock:
    skew = 0.0

    def now(self) -> float:
        return now()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def bury() -> None:
    """Ends what is left of dead clients, however often they try to clean up."""
    me = asyncio.current_task()
    for _ in range(50):
        left = [task for task in asyncio.all_tasks() if task is not me]
        if not left:
            return
        for task in left:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)


def _is_early(stored: Stored, known: set[str]) -> bool:
    """A cancel of a child that has not begun, and perhaps never will: it is kept for longer than a world lasts."""
    if stored.message.subject != subjects.CANCEL:
        return False
    wish = msgspec.json.decode(stored.message.data, type=Control)
    return wish.by.startswith("execution ") and wish.execution_id not in known
