"""Schedules at work: clock changes, stopped and killed schedulers, catch-up and overlap as declared."""

import asyncio

import pytest

from services.scheduler.schedule_timer import Timekeeper, Watch
from services.scheduler.template_turns import Turns
from shared.dsl.documents.schedules import Schedule
from shared.engine.automation.schedules import State, execution_id
from shared.events import subjects
from shared.runtime.stores import schedules as store_schedules
from tests.support.clock import at
from tests.unit.services.scheduler.world import PARTITIONS, World, live, schedule

NIGHTLY = "cron: '30 2 * * *'"
BERLIN = "  timezone: Europe/Berlin\n"


def test_a_cron_schedule_lives_through_a_clock_change() -> None:
    """Berlin, 25 October 2026: 02:30 comes twice, and both are wanted."""

    async def story(world: World) -> None:
        world.start()
        await world.apply(schedule(NIGHTLY, more=BERLIN + "  dst: {repeated: twice}\n"))
        await world.until("2026-10-25T01:31Z")
        assert await world.fired() == ["10-25 00:30", "10-25 01:30"]

    live("2026-10-25T00:20Z", story)


MISSED = ["03-28 01:30", "03-29 01:00", "03-30 00:30", "03-31 00:30"]


@pytest.mark.parametrize(("rule", "made_up"), [
    ("catch_up: none", []),
    ("catch_up: last", MISSED[-1:]),
    ("catch_up: all", MISSED),
    ("catch_up: {mode: all, most: 3}", MISSED[-3:]),
    ("catch_up: all\n  dst: {missing: skip}", ["03-28 01:30", "03-30 00:30", "03-31 00:30"]),
])
def test_times_missed_over_a_clock_change_are_caught_up_as_declared(rule: str, made_up: list[str]) -> None:
    """The scheduler stands still from 27 to 31 March 2026; on the 29th Berlin has no 02:30."""

    async def story(world: World) -> None:
        world.start()
        await world.apply(schedule(NIGHTLY, more=BERLIN + f"  {rule}\n"))
        await world.until("2026-03-27T01:31Z")
        assert await world.fired() == ["03-27 01:30"]
        await world.stop()
        await world.until("2026-03-31T09:00Z")
        world.start()
        await asyncio.sleep(30)
        assert await world.fired() == ["03-27 01:30", *made_up]
        await world.stop()
        await world.until("2026-04-01T00:29Z")
        world.start("another")
        await world.until("2026-04-01T00:31Z")
        assert await world.fired() == ["03-27 01:30", *made_up, "04-01 00:30"]

    live("2026-03-27T01:20Z", story)


def test_what_catch_up_leaves_out_is_said() -> None:
    async def story(world: World) -> None:
        await world.apply(schedule("every: 1m", more="  catch_up: {mode: all, most: 5}\n"))
        await world.until("2026-01-02T00:00:40Z")
        world.start()
        await asyncio.sleep(5)
        assert await world.fired() == ["01-01 23:56", "01-01 23:57", "01-01 23:58", "01-01 23:59", "01-02 00:00"]
        state, _ = await store_schedules.read_state(world.bus, "Schedule", "s", State)
        assert state.left_out == at("2026-01-01T23:56Z")

    live("2026-01-01T00:00Z", story)


def test_a_time_within_half_a_minute_is_on_time_even_without_catch_up() -> None:
    async def story(world: World) -> None:
        await world.apply(schedule("every: 10m"))
        await world.until("2026-01-01T00:20:20Z")
        world.start()
        await asyncio.sleep(2)
        assert await world.fired() == ["01-01 00:20"]

    live("2026-01-01T00:00Z", story)


def test_two_schedulers_at_once_start_one_execution_per_time() -> None:
    async def story(world: World) -> None:
        world.start("one")
        world.start("two")
        await world.apply(schedule("every: 1m"))
        await world.until("2026-01-01T00:05:10Z")
        assert len(await world.fired()) == 5
        assert len(set(await world.ids())) == 5

    live("2026-01-01T00:00Z", story)


def test_a_scheduler_killed_after_each_fire_loses_and_doubles_nothing() -> None:
    async def story(world: World) -> None:
        await world.apply(schedule("every: 1m", more="  catch_up: all\n"))
        for k in range(6):
            world.start(f"life{k}")
            await world.until(f"2026-01-01T00:0{k + 1}:00.0{k}Z")
            await world.kill(f"life{k}")
        world.start("last")
        await asyncio.sleep(2)
        assert await world.fired() == [f"01-01 00:0{k}" for k in range(1, 7)]
        assert len(set(await world.ids())) == 6

    live("2026-01-01T00:00Z", story)


def test_with_its_state_lost_a_schedule_asks_again_under_the_same_ids() -> None:
    async def story(world: World) -> None:
        world.start()
        await world.apply(schedule("every: 1m", more="  catch_up: all\n"))
        await world.until("2026-01-01T00:03:10Z")
        before = set(await world.ids())
        await world.stop()
        await world.bus.kv_delete("noetl_schedules", "schedule_state.s")
        world.start("another")
        await asyncio.sleep(5)
        assert set(await world.ids()) == before == {execution_id("s", at(f"2026-01-01T00:0{k}Z")) for k in (1, 2, 3)}
        assert len(await world.ids()) == 6

    live("2026-01-01T00:00Z", story)


def test_overlap_skip_skips_while_the_one_before_runs() -> None:
    async def story(world: World) -> None:
        world.start()
        await world.apply(schedule("every: 1m", more="  overlap: skip\n"))
        await world.until("2026-01-01T00:01:05Z")
        (first,) = await world.ids()
        await world.begun(first)
        await world.until("2026-01-01T01:30:30Z")
        assert await world.ids() == [first]
        await world.ended(first)
        await world.until("2026-01-01T01:31:05Z")
        assert await world.fired() == ["01-01 00:01", "01-01 01:31"]
        state, _ = await store_schedules.read_state(world.bus, "Schedule", "s", State)
        assert state.recent[-2].verdict == "skipped"
        assert first in state.recent[-2].why

    live("2026-01-01T00:00Z", story)


def test_missed_times_with_overlap_skip_are_made_up_one_after_another() -> None:
    async def story(world: World) -> None:
        await world.apply(schedule("every: 1h", more="  overlap: skip\n  catch_up: all\n"))
        await world.until("2026-01-01T03:30Z")
        world.start()
        for k in range(1, 4):
            await asyncio.sleep(20)
            assert await world.fired() == [f"01-01 0{each}:00" for each in range(1, k + 1)]
            await world.begun((await world.ids())[-1])
            await asyncio.sleep(20)
            await world.ended((await world.ids())[-1])
        await world.until("2026-01-01T04:00:05Z")
        assert await world.fired() == ["01-01 01:00", "01-01 02:00", "01-01 03:00", "01-01 04:00"]

    live("2026-01-01T00:10Z", story)


def test_overlap_cancel_cancels_what_runs_and_starts_the_new_one() -> None:
    async def story(world: World) -> None:
        world.start()
        await world.apply(schedule("every: 1m", more="  overlap: cancel\n"))
        await world.until("2026-01-01T00:01:05Z")
        (first,) = await world.ids()
        await world.begun(first)
        await world.until("2026-01-01T00:02:05Z")
        assert await world.fired() == ["01-01 00:01", "01-01 00:02"]
        (cancel,) = await world.requests(subjects.CANCEL)
        assert cancel == {"execution_id": first, "reason": "the next time of its schedule has come", "by": "schedule s"}
        await world.ended((await world.ids())[-1])
        await world.until("2026-01-01T00:03:05Z")
        assert len(await world.requests(subjects.CANCEL)) == 1

    live("2026-01-01T00:00Z", story)


def test_a_pause_fires_nothing_and_is_not_made_up() -> None:
    async def story(world: World) -> None:
        world.start()
        await world.apply(schedule("every: 1m", more="  catch_up: all\n"))
        await world.until("2026-01-01T00:01:30Z")
        assert await store_schedules.pause(world.bus, "s", True, int(world.clock.now()))
        await world.until("2026-01-01T00:10:30Z")
        assert not await store_schedules.pause(world.bus, "s", True, int(world.clock.now()))
        assert await store_schedules.pause(world.bus, "s", False, int(world.clock.now()))
        await world.until("2026-01-01T00:11:30Z")
        assert await world.fired() == ["01-01 00:01", "01-01 00:11"]

    live("2026-01-01T00:00Z", story)


def test_a_new_timing_begins_when_it_is_applied_and_a_new_payload_does_not() -> None:
    async def story(world: World) -> None:
        await world.apply(schedule("cron: '0 * * * *'", more="  catch_up: all\n"))
        await world.until("2026-01-01T02:30Z")
        await world.apply(schedule("cron: '0 * * * *'", more="  catch_up: {mode: all, most: 9}\n"))
        world.start()
        await asyncio.sleep(5)
        assert await world.fired() == ["01-01 01:00", "01-01 02:00"]
        await world.apply(schedule("cron: '*/10 * * * *'", more="  catch_up: all\n"))
        await world.until("2026-01-01T02:41Z")
        assert await world.fired() == ["01-01 01:00", "01-01 02:00", "01-01 02:40"]

    live("2026-01-01T00:30Z", story)


def test_a_deleted_schedule_fires_no_more() -> None:
    async def story(world: World) -> None:
        world.start()
        await world.apply(schedule("every: 1m"))
        await world.until("2026-01-01T00:01:30Z")
        await store_schedules.delete(world.bus, "Schedule", "s")
        await world.until("2026-01-01T00:05Z")
        assert await world.fired() == ["01-01 00:01"]

    live("2026-01-01T00:00Z", story)


def test_a_payload_that_cannot_be_made_is_a_dead_letter_and_the_schedule_goes_on() -> None:
    async def story(world: World) -> None:
        world.start()
        broken = schedule("every: 1m").replace("schedule.unix", "schedule.unix / (schedule.unix % 120)")
        await world.apply(broken)
        await world.until("2026-01-01T00:04:30Z")
        assert len(await world.ids()) == 2
        buried = await world.bus.read("NOETL_DLQ", [subjects.dead("schedules", ">")])
        assert len(buried) == 2
        assert b"schedule.unix" in buried[0].data

    live("2026-01-01T00:00Z", story)


def test_an_outage_of_the_broker_delays_and_loses_nothing() -> None:
    async def story(world: World) -> None:
        world.start()
        await world.apply(schedule("every: 1m", more="  catch_up: all\n"))
        await world.until("2026-01-01T00:01:30Z")
        world.broker.set_down(True)
        await world.until("2026-01-01T00:04:40Z")
        world.broker.set_down(False)
        await asyncio.sleep(5)
        assert await world.fired() == ["01-01 00:01", "01-01 00:02", "01-01 00:03", "01-01 00:04"]

    live("2026-01-01T00:00Z", story)


def test_a_scheduler_that_slept_through_a_decision_does_not_decide_on_what_it_remembers() -> None:
    async def story(world: World) -> None:
        await world.apply(schedule("every: 1m", more="  overlap: skip\n"))
        entry, _ = await store_schedules.find(world.bus, "Schedule", "s")
        document = store_schedules.parse(entry, "Schedule")
        assert isinstance(document, Schedule)
        awake, asleep = (Watch(document, entry, 0) for _ in range(2))
        keeper = Timekeeper(world.bus, world.clock, PARTITIONS, Turns())
        for watch in (awake, asleep):
            await keeper.serve(watch)
        await world.until("2026-01-01T00:01Z")
        await keeper.serve(awake)
        await world.begun((await world.ids())[0])
        await world.until("2026-01-01T00:02Z")
        for _ in range(2):  # refused, and then with what is there
            await keeper.serve(asleep)
        assert await world.fired() == ["01-01 00:01"]
        assert asleep.state is not None
        assert [fire.verdict for fire in asleep.state.recent] == ["started", "skipped"]

    live("2026-01-01T00:00Z", story)
