"""Which records a shell takes for new: what is old, or from a time that has not come, may have been handled before."""

import pytest

from shared.bus import topology
from shared.bus.memory.bus import MemoryBroker, MemoryBus
from shared.bus.ports import Message
from shared.engine.routing.core import RouterCore
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import Lease, Record, encode
from shared.events.stamp import stamp
from shared.runtime.control.burials import ORIGIN
from shared.runtime.control.letter_quota import Quota
from shared.runtime.control.load_pacing import Loads
from shared.runtime.control.shell import FRESH_S, Shell
from shared.runtime.control.surroundings import Surroundings
from shared.runtime.stores.plans import Plans
from tests.support.clock import START, VirtualClock


@pytest.mark.parametrize(
    ("off_s", "fresh"), [(0.0, True), (1 - FRESH_S, True), (FRESH_S - 1, True), (-FRESH_S - 1, False), (3600.0, False)]
)
async def test_a_record_is_fresh_if_its_time_is_about_now(off_s: float, fresh: bool) -> None:
    clock = VirtualClock()
    bus = MemoryBus(MemoryBroker(clock, topology.wanted(partitions=1)))
    plans = Plans(bus)
    around = Surroundings(
        bus=bus, clock=clock, partitions=1, core=RouterCore(plans), plans=plans, send=lambda _messages, done: done(),
        loads=Loads(), quota=Quota(clock.now, ORIGIN))
    shell = Shell(around, 0)
    record = Record("x", "worker", 1, stamp(START + off_s), (ev.StepStarted(),), lease=Lease("r:1", "r", (1, 1), "w"))
    await shell.take([Message(subjects.event(0, "x", "worker"), encode(record), 7)])
    assert (shell.horizon.seq < 7) == fresh
    await shell.stop()
