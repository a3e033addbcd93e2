"""Ends of executions: told once, whoever tells them and however often, and what follows from them."""

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from services.scheduler import ends as told
from services.scheduler.ends import Ends
from services.scheduler.notify import Notifier
from shared.answers.history.end import End, end_of
from shared.bus import dead_letters, topology, trigger_consumer
from shared.bus.memory.bus import MemoryBus
from shared.dsl.compile import compile_playbook
from shared.errors import Unavailable
from shared.events import model as ev
from shared.events import subjects
from shared.events.outcome import Result
from shared.events.record import Record, decode, encode
from shared.events.request import derive_id
from shared.events.stamp import stamp
from shared.runtime.stores import catalog
from shared.runtime.stores.plans import Plans
from shared.tools.registry import specs
from tests.unit.services.scheduler.world import PARTITIONS, World, live

START = "2026-03-01 00:00"
BOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: load, path: etl/load}
executor: {spec: {policy: {notify: NOTIFY}}}
workflow: [{step: start, tool: {kind: noop}}]
"""


async def ended(world: World, name: str, by: str = "", digest: str = "", **how: Any) -> None:
    """An execution of two records, as a router writes them."""
    partition = subjects.partition_of(name, PARTITIONS)
    subject = subjects.event(partition, name, "router")
    first = ev.ExecutionRequested("etl/load", by=by), ev.RequestEvaluated(digest)
    await world.bus.append(subject, encode(Record(name, "router", 1, stamp(world.clock.now()), first)))
    last = (ev.PlaybookProcessed(**how),)
    await world.bus.append(subject, encode(Record(name, "router", 3, stamp(world.clock.now()), last)))


def teller(world: World, name: str) -> "asyncio.Task[None]":
    bus = MemoryBus(world.broker, name)
    return asyncio.create_task(ends_of(world, bus).run())


def ends_of(world: World, bus: MemoryBus, seen: int = 2**62) -> Ends:
    """Whoever has seen all of the log before is not listened to: all is read from the log."""
    own = dict.fromkeys(range(PARTITIONS), seen)
    return Ends(bus, world.clock, PARTITIONS, lambda: own, Notifier(bus, Plans(bus)))


class Shell:
    """Reads the partitions of a world as far as it is told to, and says so."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self._seen = world, dict.fromkeys(range(PARTITIONS), 0)
        bus = MemoryBus(world.broker, name)
        self.ends = Ends(bus, world.clock, PARTITIONS, lambda: self._seen, Notifier(bus, Plans(bus)))

    async def read(self, *, silent: bool = False) -> None:
        for partition, after in self._seen.items():
            found = await self._world.bus.read(topology.events_stream(partition), [f"{subjects.EVENTS}.>"], after=after)
            records = [(message, decode(message, PARTITIONS)) for message in found]
            self._seen[partition] = seen = found[-1].seq if found else after
            if found and not silent:
                self.ends.hear(partition, after, seen, records)


async def stopped(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def heard(world: World) -> list[tuple[str, End]]:
    stored = await world.bus.read(topology.ENDS, [f"{subjects.ENDS}.>"])
    return [(message.subject, msgspec.json.decode(message.data, type=End)) for message in stored]


async def register(world: World, notify: str) -> str:
    source = BOOK.replace("NOTIFY", notify).encode()
    plan = compile_playbook(source, kinds=specs()).plan
    assert plan is not None
    return (await catalog.register(world.bus, source, plan)).digest


def test_each_end_is_told_once_by_any_number_of_instances() -> None:
    async def story(world: World) -> None:
        await ended(world, "before", result=Result(7))
        both = teller(world, "one"), teller(world, "two")
        await asyncio.sleep(3)
        await ended(world, "after", status="failed", error={"message": "no"})
        await asyncio.sleep(3)
        await stopped(*both)
        found = dict(await heard(world))
        assert len(await heard(world)) == 2
        assert found["noetl.ends.completed.before.etl.load"].result == 7
        assert found["noetl.ends.failed.after.etl.load"].error == {"message": "no"}

    live(START, story)


def test_one_that_dies_before_its_cursor_is_kept_loses_nothing() -> None:
    async def story(world: World) -> None:
        first = teller(world, "one")
        await asyncio.sleep(3)
        for n in range(20):
            await ended(world, f"e{n}")
        world.broker.kill("one")
        await ended(world, "last")
        second = teller(world, "two")
        await asyncio.sleep(3)
        await stopped(first, second)
        assert {end.execution_id for _, end in await heard(world)} == {*(f"e{n}" for n in range(20)), "last"}
        assert len(await heard(world)) == 21

    live(START, story)


def test_what_cannot_be_told_now_is_told_later() -> None:
    async def story(world: World) -> None:
        stream = world.broker.streams.pop(topology.ENDS)
        telling = teller(world, "one")
        await ended(world, "e1")
        await asyncio.sleep(5)
        with suppress(Unavailable):
            assert await heard(world) == []
        world.broker.streams[topology.ENDS] = stream
        await asyncio.sleep(5)
        await stopped(telling)
        assert [end.execution_id for _, end in await heard(world)] == ["e1"]

    live(START, story)


def test_a_refusal_though_nothing_is_stored_is_not_taken_for_an_end_that_was_told() -> None:
    async def story(world: World) -> None:
        left = [True]
        world.broker.contested = lambda _, subject: subject.startswith(subjects.ENDS) and bool(left) and left.pop()
        telling = teller(world, "one")
        await ended(world, "e1")
        await asyncio.sleep(5)
        await stopped(telling)
        assert [end.execution_id for _, end in await heard(world)] == ["e1"]
        assert not left

    live(START, story)


def test_what_a_shell_reads_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World) -> None:
        shell = Shell(world, "one")
        followed: list[str] = []
        monkeypatch.setattr(MemoryBus, "follow", lambda *given: followed.append(given[1]))
        telling = asyncio.create_task(shell.ends.run())
        await asyncio.sleep(3)
        await ended(world, "e1")
        await shell.read()
        await asyncio.sleep(3)
        await stopped(telling)
        assert [end.execution_id for _, end in await heard(world)] == ["e1"]
        assert not followed

    live(START, story)


def test_what_a_shell_read_before_it_was_listened_to_is_told_though_nothing_follows() -> None:
    async def story(world: World) -> None:
        shell = Shell(world, "one")
        telling = asyncio.create_task(shell.ends.run())
        await asyncio.sleep(3)
        await ended(world, "e1")
        await shell.read(silent=True)
        await asyncio.sleep(5)
        assert [end.execution_id for _, end in await heard(world)] == ["e1"]
        await ended(world, "e2")
        await shell.read()
        await asyncio.sleep(5)
        await stopped(telling)
        assert [end.execution_id for _, end in await heard(world)] == ["e1", "e2"]

    live(START, story)


def test_with_more_than_can_be_kept_the_log_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "MAX_HEARD", 3)

    async def story(world: World) -> None:
        shell = Shell(world, "one")
        telling = asyncio.create_task(shell.ends.run())
        await asyncio.sleep(3)
        for n in range(20):
            await ended(world, f"e{n}")
        await shell.read()
        await asyncio.sleep(5)
        await stopped(telling)
        assert {end.execution_id for _, end in await heard(world)} == {f"e{n}" for n in range(20)}

    live(START, story)


def test_ends_older_than_the_stream_keeps_are_passed_over() -> None:
    async def story(world: World) -> None:
        await ended(world, "old")
        await asyncio.sleep(topology.ENDS_KEPT_S + 60)
        await ended(world, "new")
        telling = teller(world, "one")
        await asyncio.sleep(3)
        await stopped(telling)
        assert [end.execution_id for _, end in await heard(world)] == ["new"]

    live(START, story)


def test_a_first_record_that_is_not_in_memory_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "MAX_FIRST_BYTES", 0)

    async def story(world: World) -> None:
        await ended(world, "e1")
        telling = teller(world, "one")
        await asyncio.sleep(3)
        await stopped(telling)
        assert [end.path for _, end in await heard(world)] == ["etl/load"]

    live(START, story)


def test_a_failure_starts_what_its_policy_names_once() -> None:
    async def story(world: World) -> None:
        digest = await register(
            world, '{playbook: {path: alerts/send, payload: {text: "{{ end.path }}: {{ end.error.message }}"}}}')
        both = teller(world, "one"), teller(world, "two")
        await ended(world, "bad", digest=digest, status="failed", error={"message": "no"})
        await ended(world, "good", digest=digest)
        await asyncio.sleep(5)
        await stopped(*both)
        asked = {each["execution_id"]: each for each in await world.requests()}
        assert asked.keys() == {derive_id("notify", "bad")}
        (request,) = asked.values()
        assert (request["path"], request["payload"], request["by"]) == (
            "alerts/send", {"text": "etl/load: no"}, "end of bad")

    live(START, story)


def test_one_that_was_refused_before_it_had_a_plan_is_told_of_too() -> None:
    async def story(world: World) -> None:
        await register(world, "{playbook: {path: alerts/send}}")
        telling = teller(world, "one")
        await ended(world, "bad", status="failed", error={"message": "no credential"})
        await asyncio.sleep(5)
        await stopped(telling)
        (request,) = await world.requests()
        assert request["payload"]["end"]["error"] == {"message": "no credential"}

    live(START, story)


def test_what_an_end_has_started_tells_nobody_of_its_own() -> None:
    async def story(world: World) -> None:
        digest = await register(world, "{playbook: {path: etl/load}, ends: [completed, failed]}")
        telling = teller(world, "one")
        await ended(world, "bad", by="end of other", digest=digest, status="failed", error={})
        await asyncio.sleep(5)
        await stopped(telling)
        assert await world.requests() == []
        assert len(await heard(world)) == 1, "it is heard all the same"

    live(START, story)


def test_a_notification_that_cannot_be_made_is_a_letter_and_the_others_go_on() -> None:
    async def story(world: World) -> None:
        digest = await register(world, '{playbook: {path: alerts/send, payload: {text: "{{ 1 / end.error.code }}"}}}')
        telling = teller(world, "one")
        await ended(world, "bad", digest=digest, status="failed", error={"code": 0})
        await ended(world, "worse", digest=digest, status="failed", error={"code": 2})
        await asyncio.sleep(5)
        await stopped(telling)
        assert [each["payload"]["text"] for each in await world.requests()] == [0.5]
        (letter,) = await dead_letters.latest(world.bus, 10)
        assert (letter.origin, letter.note and letter.note.place) == ("notify", "notify of bad")

    live(START, story)


def test_a_trigger_on_ends_fires_on_failures_and_not_on_what_it_has_started() -> None:
    document = """\
apiVersion: noetl.io/v2
kind: Trigger
metadata: {name: page}
spec:
  subject: noetl.ends.failed.*.etl.>
  playbook: {path: alerts/send}
  mapping: {of: "{{ message.data.execution_id }}"}
"""

    async def story(world: World) -> None:
        await trigger_consumer.ensure(world.bus, "page", topology.ENDS, "noetl.ends.failed.*.etl.>")
        await world.apply(document)
        world.start()
        telling = teller(world, "two")
        await ended(world, "bad", status="failed", error={})
        await ended(world, "good")
        await ended(world, "echo", by="end of bad, trigger page", status="failed", error={})
        await asyncio.sleep(5)
        await stopped(telling)
        (request,) = await world.requests()
        assert (request["payload"], request["by"]) == ({"of": "bad"}, "end of bad, trigger page")

    live(START, story)


@pytest.mark.parametrize(("path", "subject"), [
    ("etl/load", "etl.load"), ("a b/c.d/*", "a_b.c_d._"), ("", "_"), ("//x", "_._.x"), ("größe/>", "größe._"),
])
def test_a_path_becomes_parts_of_a_subject(path: str, subject: str) -> None:
    assert subjects.end("failed", "e1", path) == f"noetl.ends.failed.e1.{subject}"


def test_records_that_are_no_beginning_or_no_end_tell_nothing() -> None:
    first = Record("e", "router", 1, "", (ev.ExecutionRequested("p"),))
    assert end_of(first, first) is None
    assert end_of(Record("e", "router", 1, "", (ev.PlaybookStarted(),)), Record("e", "router", 2, "", (
        ev.PlaybookProcessed(),))) is None
