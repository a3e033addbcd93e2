"""Costly filters: a trigger's messages come at its pace, one in a round of the loop, and what is too much is dropped
or stays in its stream. Evaluations and rounds of the loop are counted, in virtual time."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from services.scheduler import trigger_runner
from services.scheduler.trigger_runner import DROPPED_S, MAX_WAITING
from shared.bus import topology
from shared.dsl.documents.compile import compile_document
from shared.dsl.documents.schedules import Schedule
from shared.dsl.templates.budget import MAX_DECISION_WORK, Budget
from shared.engine.automation import schedules as automation_schedules
from shared.engine.automation.schedules import State
from shared.events import subjects
from shared.runtime.control.template_pace import BURST, SHARE
from tests.unit.services.scheduler.test_triggers import START, open_
from tests.unit.services.scheduler.world import World, live, schedule

COSTLY = "(range(12000) | map('string') | list | length) < 0"
FILTER = f'  filter: "{{{{ {COSTLY} }}}}"\n'
UNITS = 600_000  # at least, of one evaluation


class Counted:
    """Calls of a function: in which round of the loop each was, when, and what it used."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> None:
        self.rounds, self.times, self.units = list[int](), list[float](), list[int]()
        self._monkeypatch, self._of, self._round = monkeypatch, getattr(where, name), 0
        monkeypatch.setattr(where, name, self._call)

    def watch(self) -> None:
        selector: Any = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]  # a round looks there once
        select: Callable[[float | None], Any] = selector.select

        def counted(timeout: float | None) -> Any:
            self._round += 1
            return select(timeout)

        self._monkeypatch.setattr(selector, "select", counted)

    def _call(self, *args: Any) -> Any:
        self.rounds.append(self._round)
        self.times.append(asyncio.get_running_loop().time())
        with Budget(None) as spent:
            try:
                return self._of(*args)
            finally:
                self.units.append(spent.used)


def test_messages_of_a_core_subject_are_evaluated_at_the_pace_of_the_trigger(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch, trigger_runner, "react")

    async def story(world: World) -> None:
        world.broker.lose("ORDERS")
        await open_(world, FILTER, stream=False)
        counted.watch()
        began = asyncio.get_running_loop().time()
        for _ in range(300):
            await world.bus.publish("orders.new", b'{"n":1}')
        await asyncio.sleep(20)
        assert min(counted.units) > UNITS
        assert len(set(counted.rounds)) == len(counted.rounds) > 5
        for at in counted.times:
            soon = sum(units for time, units in zip(counted.times, counted.units, strict=True) if time <= at)
            assert soon <= BURST + SHARE * (at - began) + MAX_DECISION_WORK

    live(START, story)


def test_messages_of_a_stream_wait_there_and_each_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch, trigger_runner, "react")

    async def story(world: World) -> None:
        await open_(world, FILTER)
        counted.watch()
        for number in range(40):
            await world.bus.append("orders.new", json.dumps({"id": number}).encode())
        await asyncio.sleep(10)
        assert sum(counted.units) <= BURST + 10 * SHARE + MAX_DECISION_WORK
        assert len(await world.bus.read("ORDERS", [">"])) > 20
        await asyncio.sleep(120)
        assert await world.bus.read("ORDERS", [">"]) == []
        assert len(counted.rounds) == len(set(counted.rounds)) == 40

    live(START, story)


def test_a_cheap_filter_takes_what_comes_and_gives_way_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch, trigger_runner, "react")

    async def story(world: World) -> None:
        world.broker.lose("ORDERS")
        await open_(world, '  filter: "{{ message.data.id == 7 }}"\n', stream=False)
        counted.watch()
        for number in range(500):
            await world.bus.publish("orders.new", json.dumps({"id": number}).encode())
        await asyncio.sleep(0.1)
        assert len(counted.rounds) == len(set(counted.rounds)) == 500
        assert len(await world.ids()) == 1

    live(START, story)


def test_core_messages_that_are_too_many_are_dropped_with_a_letter_a_minute() -> None:
    async def story(world: World) -> None:
        world.broker.lose("ORDERS")
        await open_(world, FILTER, stream=False)
        for _ in range(MAX_WAITING + 200):
            await world.bus.publish("orders.new", b'{"n":1}')
        await asyncio.sleep(5)
        (letter,) = await _letters(world)
        count = int(letter["reason"].split()[0])
        assert 150 <= count <= 200
        assert "dropped" in letter["reason"]
        assert (letter["name"], letter["subject"]) == ("orders", "orders.new")
        for _ in range(MAX_WAITING):
            await world.bus.publish("orders.new", b'{"n":1}')
        await asyncio.sleep(5)
        assert len(await _letters(world)) == 1
        await asyncio.sleep(DROPPED_S)
        assert len(await _letters(world)) == 2

    live(START, story)


def test_large_core_messages_that_wait_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trigger_runner, "MAX_WAITING_BYTES", 10_000)

    async def story(world: World) -> None:
        world.broker.lose("ORDERS")
        await open_(world, FILTER, stream=False)
        for _ in range(50):
            await world.bus.publish("orders.new", b"x" * 1000)
        await asyncio.sleep(5)
        (letter,) = await _letters(world)
        assert 30 <= int(letter["reason"].split()[0]) <= 40

    live(START, story)


def test_schedules_of_one_time_are_rendered_one_in_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch, automation_schedules, "request")

    async def story(world: World) -> None:
        world.start()
        for number in range(10):
            await world.apply(schedule("every: 1m", name=f"s{number}"))
        await asyncio.sleep(2)
        counted.watch()
        await asyncio.sleep(90)
        assert len(counted.rounds) >= 10
        assert len(counted.rounds) == len(set(counted.rounds))

    live(START, story)


def test_missed_times_with_costly_payloads_are_started_a_few_at_a_time() -> None:
    payload = f"{{n: \"{{{{ {COSTLY} }}}}\"}}"
    source = schedule("every: 1m", more="  catch_up: all\n").replace('{at: "{{ schedule.unix }}"}', payload)
    found = compile_document(source, kind="Schedule").document
    assert isinstance(found, Schedule)
    state, turns = State(), 0
    while turns == 0 or state.owed:
        with Budget(None) as spent:
            state = automation_schedules.decide(found, state, 1_800_000_000, 1_800_000_000 + 20 * 60, frozenset())
        assert spent.used <= 2 * MAX_DECISION_WORK
        turns += 1
    assert turns >= 10
    assert len({fire.at for fire in state.recent if fire.verdict == "started"}) == 20


async def _letters(world: World) -> list[dict[str, Any]]:
    stored = await world.bus.read(topology.DEAD, [subjects.dead("triggers", ">")])
    return [msgspec.json.decode(each.data) for each in stored]
