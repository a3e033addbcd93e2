"""The clock of the services: the broker's time, whatever the host's clock says and however long answers take."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from shared.bus import topology
from shared.bus.memory.bus import MemoryBroker, MemoryBus
from shared.errors import Unavailable
from shared.events.stamp import stamp
from shared.runtime.service import clock as clocks
from shared.runtime.service.clock import AGAIN_S, SLEW, STEP_S, BrokerClock, WrongClock, followed

BROKER = 1_800_000_000.0


class Machine:
    """A host: time passes when a test says so, and its wall clock says what it likes."""

    skew = 0.0

    def __init__(self, wall: float) -> None:
        self.wall, self.passed = wall, 1000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self.wall + self.passed

    def monotonic(self) -> float:
        return self.passed

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.passed + seconds, future))
        await future

    async def pass_(self, seconds: float) -> None:
        self.passed += seconds
        for at, future in self._sleepers:
            if at <= self.passed and not future.done():
                future.set_result(None)
        self._sleepers = [each for each in self._sleepers if not each[1].done()]
        for _ in range(10):
            await asyncio.sleep(0)


class Broker:
    """What the clock asks of a bus: each answer takes its time on the way back."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.offset, self.delays = machine, BROKER, list[float]()
        self.away = False

    @property
    def real(self) -> float:
        return self.machine.passed + self.offset

    async def time(self) -> float:
        if self.away:
            raise Unavailable("away")
        told = self.real
        self.machine.passed += self.delays.pop(0) if self.delays else 0.0
        return told


class Stage:
    def __init__(self, ahead_s: float = 0.0, max_skew_s: float = 5.0) -> None:
        self.machine = Machine(BROKER + ahead_s)
        self.broker = Broker(self.machine)
        self.clock = BrokerClock(self.broker, self.machine, max_skew_s)  # type: ignore[arg-type]  # only `time` is asked

    @property
    def error(self) -> float:
        return self.clock.now() - self.broker.real

    async def again(self, times: int = 1) -> None:
        for _ in range(times):
            await self.machine.pass_(AGAIN_S)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    await stage.clock.start()
    following = asyncio.create_task(stage.clock.follow())
    await asyncio.sleep(0)
    yield stage
    following.cancel()
    await asyncio.wait({following})


@pytest.mark.parametrize("ahead_s", [0.0, 4.9, -4.9])
async def test_it_tells_the_brokers_time_and_how_far_off_the_host_is(ahead_s: float) -> None:
    stage = Stage(ahead_s)
    await stage.clock.start()
    assert abs(stage.error) < 1e-6
    assert stage.clock.skew == pytest.approx(ahead_s)


@pytest.mark.parametrize(("ahead_s", "words"), [(3600.0, "ahead of the broker's by 3600.0 s"), (-5.1, "behind the")])
async def test_a_host_that_is_too_far_off_is_refused_with_both_times_and_the_remedy(ahead_s: float, words: str) -> None:
    stage = Stage(ahead_s)
    with pytest.raises(WrongClock, match=words) as refused:
        await stage.clock.start()
    for said in (stamp(stage.machine.now()), stamp(stage.broker.real), "NOETL_MAX_SKEW_S", "chrony"):
        assert said in str(refused.value)


async def test_what_is_allowed_can_be_said() -> None:
    stage = Stage(3600.0, max_skew_s=7200.0)
    await stage.clock.start()
    assert abs(stage.error) < 1e-6


async def test_the_shortest_way_counts() -> None:
    stage = Stage()
    stage.broker.delays = [8.0, 3.0, 0.01, 5.0, 20.0]
    await stage.clock.start()
    assert abs(stage.error) <= 0.0051


async def test_slow_answers_alone_do_not_make_a_host_wrong() -> None:
    stage = Stage()
    stage.broker.delays = [30.0] * clocks.FIRST
    await stage.clock.start()


async def test_a_jump_of_the_hosts_clock_changes_nothing_and_is_told(stage: Stage) -> None:
    before = stage.clock.now()
    stage.machine.wall += 3600
    assert stage.clock.now() == before
    await stage.again()
    assert abs(stage.error) < 1e-6
    assert stage.clock.skew == pytest.approx(3600)


async def test_a_difference_is_slewed_and_time_never_goes_back(stage: Stage) -> None:
    stage.broker.offset -= 4.0
    await stage.again()
    before = stage.clock.now()
    for _ in range(int(4.0 / SLEW) + 10):
        await stage.machine.pass_(1.0)
        assert (1 - SLEW) * 0.999 <= stage.clock.now() - before <= 1.001
        before = stage.clock.now()
    assert abs(stage.error) < 0.01


async def test_a_broker_set_back_by_an_hour_is_followed_without_going_back(stage: Stage) -> None:
    stage.broker.offset -= 3600
    before = stage.clock.now()
    for _ in range(20):
        await stage.again()
        assert stage.clock.now() > before
        before = stage.clock.now()
    assert 0 < stage.error < 3600 - 9 * SLEW * AGAIN_S


async def test_a_host_that_slept_takes_the_time_over_at_once(stage: Stage) -> None:
    stage.broker.offset += 8 * 3600
    await stage.again()
    assert abs(stage.error) < 1e-6


async def test_an_answer_that_took_long_is_no_reason_for_a_step(stage: Stage) -> None:
    """A process that was stopped between the question and the answer knows nothing new."""
    stage.broker.delays = [25.0]
    await stage.again()
    assert abs(stage.error) < 1e-6
    stage.broker.offset += STEP_S + 1
    stage.broker.delays = [25.0]
    await stage.again()
    assert stage.error == pytest.approx(-STEP_S - 1)


async def test_while_the_broker_is_away_time_goes_on(stage: Stage) -> None:
    stage.broker.away = True
    before = stage.clock.now()
    await stage.again(100)
    assert stage.clock.now() - before == pytest.approx(100 * AGAIN_S)


async def test_a_service_waits_for_a_broker_that_says_the_time_and_can_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clocks, "WAIT_S", 0.01)
    host = clocks.SystemClock()
    broker = MemoryBroker(host, topology.wanted(partitions=1))
    bus, stop = MemoryBus(broker), asyncio.Event()
    broker.set_down(True)
    asyncio.get_running_loop().call_later(0.05, broker.set_down, False)
    async with followed(bus, 5.0, stop) as clock:
        assert clock is not None
        assert abs(clock.now() - host.now()) < 1.0
    broker.set_down(True)
    asyncio.get_running_loop().call_later(0.05, stop.set)
    async with followed(bus, 5.0, stop) as clock:
        assert clock is None
