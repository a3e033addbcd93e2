"""What a control service says and does while it loads what its predecessor left."""

import asyncio
from collections.abc import Collection
from typing import Any

import msgspec

from services.router.service import Router
from services.scheduler.service import Scheduler
from shared.bus import topology
from shared.bus.memory.bus import Faults, MemoryBroker, MemoryBus
from shared.bus.ports import Storage
from shared.engine.scheduling.core import SchedulerCore
from shared.errors import Unavailable
from shared.events import subjects
from shared.events.fields import Parent
from shared.events.headers import REPLY_TO
from shared.events.record import Record
from shared.events.request import Request
from shared.runtime.control.actor import Actor, forget_idle
from shared.runtime.control.burials import ORIGIN
from shared.runtime.control.letter_quota import Quota
from shared.runtime.control.load_pacing import Loads
from shared.runtime.control.partitions import Cursor
from shared.runtime.control.shell import Shell
from shared.runtime.control.surroundings import Surroundings
from shared.runtime.service.clock import SystemClock
from shared.runtime.service.health import Health, is_of
from shared.runtime.service.settings import Settings
from shared.runtime.stores.execution_status import standing
from shared.runtime.stores.plans import Plans
from tests.support.waiting import until

WITHIN_S = 10.0
SETTINGS = Settings(instance="one", partitions=1)


class Gate(Faults):
    """Reads of one execution's snapshot wait until they are let through, or fail."""

    def __init__(self, execution_id: str) -> None:
        self._subject, self.open, self.fails = f".{execution_id}", asyncio.Event(), False

    async def before(self, operation: str, client: str, subject: str) -> None:
        if subject.endswith(self._subject) and operation == "kv_get":
            if self.fails:
                raise Unavailable("no answer")
            await self.open.wait()


def broker(faults: Faults | None = None) -> MemoryBroker:
    return MemoryBroker(SystemClock(), topology.wanted(partitions=1), faults)


async def scheduler(gate: Gate, live: list[str], health: Health) -> tuple[asyncio.Event, "asyncio.Task[None]"]:
    bus = MemoryBus(broker(gate))
    await bus.kv_put(topology.CURSORS, "scheduler.0", msgspec.json.encode(Cursor(0, live)))
    is_of(health)

    async def remake() -> None:
        return None

    stop = asyncio.Event()
    service = Scheduler(bus, SETTINGS, SystemClock(), remake)
    return stop, asyncio.create_task(service.run(stop, health.mark_ready))


async def test_it_is_ready_when_every_live_execution_was_tried_and_says_how_many_are_left() -> None:
    gate, health = Gate("slow"), Health()
    stop, task = await scheduler(gate, ["a", "b", "slow"], health)
    await until(lambda: health.hindered, "one is still to be loaded", WITHIN_S,
                so=lambda why: "1 executions are still to be loaded" in why)
    assert health.answer("GET", "/readyz") == (503, "not ready: 1 executions are still to be loaded")
    gate.open.set()
    await until(lambda: health.able, "all are loaded", WITHIN_S, instead=lambda: health.hindered)
    stop.set()
    await task


async def test_one_that_cannot_be_loaded_does_not_keep_it_from_ready() -> None:
    gate, health = Gate("broken"), Health()
    gate.fails = True
    stop, task = await scheduler(gate, ["a", "broken"], health)
    await until(lambda: health.able, "all are loaded", WITHIN_S, instead=lambda: health.hindered)
    stop.set()
    await task


async def test_a_record_that_comes_while_its_execution_is_loaded_is_no_reason_to_wait() -> None:
    bus = MemoryBus(broker())
    plans, clock = Plans(bus), SystemClock()
    around = Surroundings(
        bus=bus, clock=clock, partitions=1, core=SchedulerCore(plans), plans=plans,
        send=lambda _messages, then: then(), loads=Loads(), quota=Quota(clock.now, ORIGIN))
    shell = Shell(around, 0)
    actor, loaded = Actor[Any]("x"), shell.loader.load

    async def load(execution_id: str, delivered: Collection[int], *, whole: bool) -> Any:
        found = await loaded(execution_id, delivered, whole=whole)
        actor.inbox.append((7, Record(execution_id, "router", 1, "", ())))  # delivered just now
        return found

    shell.loader.load = load  # type: ignore[method-assign]
    await shell._preparing._load(actor)
    assert actor.state is not None
    assert [seq for seq, _ in actor.news()] == [7]


def test_where_all_must_stay_in_memory_not_every_new_one_is_a_reason_to_look_at_all() -> None:
    class Core:
        kept = True

        def keep(self, _state: object) -> bool:
            return self.kept

    core: Any = Core()
    actors: dict[str, Actor[Any]] = {str(n): Actor(str(n), object()) for n in range(101)}  # type: ignore[type-var]
    assert forget_idle(actors, core, 100) == 111
    assert len(actors) == 101
    core.kept = False
    assert forget_idle(actors, core, 100) == 100
    assert list(actors) == [str(n) for n in range(11, 101)]


async def test_without_room_children_begin_answers_are_given_and_the_rest_waits() -> None:
    shared = broker()
    bus, stop, ready = MemoryBus(shared), asyncio.Event(), asyncio.Event()
    router = Router(bus, SETTINGS, SystemClock())
    router.room.note(Storage(99, 100))
    task = asyncio.create_task(router.run(stop, ready.set))
    await ready.wait()
    inbox = await bus.subscribe("_INBOX.me")
    child = Request("gone", execution_id="child", parent=Parent("mother", "start:1", "task"))
    await bus.append(subjects.CHILD, msgspec.json.encode(child))
    await bus.append(subjects.EXECUTE, msgspec.json.encode(Request("gone", execution_id="kept")))
    asked = msgspec.json.encode(Request("gone", execution_id="asked"))
    await bus.append(subjects.EXECUTE, asked, headers={REPLY_TO: "_INBOX.me"})
    answer = msgspec.json.decode(await asyncio.wait_for(inbox.next(), WITHIN_S))
    assert (answer["status"], answer["error"]["kind"]) == ("failed", "capacity")
    assert await standing(bus, "child", 1) == "over"  # its playbook is not registered, and it is told so
    assert await standing(bus, "kept", 1) == await standing(bus, "asked", 1) == "unknown"
    stop.set()
    await task
