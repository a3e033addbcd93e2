"""The system of a storm: two routers, two schedulers, three workers, a projector, each behind a proxy of its own and
with a clock of its own, under the product's leases, and started again by a supervisor when they end."""

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import NamedTuple, Self

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.streams import ensure
from tests.chaos.driving.support import POOL, Cluster, Process
from tests.support.servers.proxy import Proxy

SIZES = {"router": 2, "scheduler": 2, "worker": 3, "projector": 1}
BOOKS = Path(__file__).parent / "books"
SUPERVISE_S = 0.2
RESTART_S = 0.5
MAX_CLOCK_OFF_S = 5.0  # beyond it a service may refuse to start


class Ended(NamedTuple):
    """A process that ended although nobody killed it, and how far its clock was off at most while it lived."""

    name: str
    code: int
    clock_off_s: float


class System(Cluster):
    playbooks = BOOKS

    def __init__(self) -> None:
        super().__init__(SIZES)
        self.proxies: dict[str, Proxy] = {}
        self.clocks: dict[str, float] = {}
        self._off: dict[str, float] = {}
        self.ended: list[Ended] = []
        self.starts = 0
        self._killed: set[int] = set()
        self._supervisor: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.__aexit__()
            raise
        self._supervisor = asyncio.create_task(self._supervise())
        return self

    async def __aexit__(self, *_: object) -> None:
        """In a thread: the services say goodbye through the proxies, which live in this one."""
        await self.leave_alone()
        await asyncio.to_thread(self.close)
        for proxy in self.proxies.values():
            await proxy.close()

    async def leave_alone(self) -> None:
        """What ends from now on stays down."""
        if self._supervisor is not None:
            self._supervisor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._supervisor
            self._supervisor = None

    # What a cluster of these differs in

    async def _make_streams(self, bus: JetStreamBus) -> None:
        await ensure(bus, topology.wanted((POOL,)))

    async def _url(self, name: str) -> str:
        self.proxies[name] = await Proxy(*self.brokers()).start()
        return self.proxies[name].url

    async def heal(self) -> None:
        for name, process in self.processes.items():
            if not process.running:
                self.step_clock(name, 0.0)
        await super().heal()

    def brokers(self) -> list[int]:
        """The ports of its servers."""
        return [self.nats.port]

    # Faults

    async def kill(self, name: str) -> None:
        self._killed.add(self.processes[name].pid)
        await super().kill(name)

    def pause(self, name: str, number: signal.Signals) -> None:
        """SIGSTOP or SIGCONT, to whoever bears the name now."""
        if self.processes[name].running:
            self.processes[name].send(number)

    def step_clock(self, name: str, ahead_s: float) -> None:
        self.clocks[name] = ahead_s
        self._off[name] = max(self._off.get(name, 0.0), abs(ahead_s))
        self.processes[name].set_clock(ahead_s)

    async def calm(self) -> None:
        """Nothing is wrong any more; everything runs and takes work."""
        for name, process in self.processes.items():
            self.step_clock(name, 0.0)
            self.proxies[name].heal()
            if process.running:
                process.send(signal.SIGCONT)
        await self.broker_up()
        for process in self.processes.values():
            await self._until_running(process)
        await asyncio.gather(*(process.ready() for process in self.processes.values()))

    @property
    def admin_url(self) -> str:
        return self.nats.url

    async def broker_up(self) -> None:
        if not self.nats.running:
            await asyncio.to_thread(self.nats.start)

    async def _until_running(self, process: Process) -> None:
        while not process.running:  # noqa: ASYNC110  the supervisor starts it
            await asyncio.sleep(SUPERVISE_S)

    # The supervisor

    async def _supervise(self) -> None:
        while True:
            await asyncio.sleep(SUPERVISE_S)
            for process in self.processes.values():
                if not process.running:
                    await self._again(process)

    async def _again(self, process: Process) -> None:
        if process.pid not in self._killed:
            code = await process.ended()
            self.ended.append(Ended(process.name, code, self._off.get(process.name, 0.0)))
        await asyncio.sleep(RESTART_S)
        if not process.running:
            self._off[process.name] = abs(self.clocks.get(process.name, 0.0))
            process.start()
            self.starts += 1

    def surprising(self) -> list[Ended]:
        """Ends that nothing explains: a service may refuse to start with a clock that is off."""
        return [each for each in self.ended if each.clock_off_s <= MAX_CLOCK_OFF_S]
