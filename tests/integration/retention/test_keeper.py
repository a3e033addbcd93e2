"""What is old enough goes, step by step, with the rights of a projector; what somebody may still need stays."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import asyncpg
import msgspec
import pytest

from services.router.reruns import Kept, Prepared, Reruns
from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.errors import Unavailable
from shared.events import subjects
from shared.events.request import Control
from shared.runtime.embedded.postgres_roles import PROJECTOR
from shared.runtime.readmodel.database import Database
from shared.runtime.retention import sweep
from shared.runtime.retention.families import Families
from shared.runtime.retention.keeper import Keeper
from shared.runtime.retention.sweep import unseen
from shared.runtime.service.main import connect
from shared.runtime.service.settings import Settings
from shared.runtime.stores import retention
from shared.runtime.stores.plans import Plans
from tests.support.cli import run
from tests.support.running import WAIT_S, Running, running
from tests.support.waiting import until

KEPT = ("results=60s", "read_model=60s")
LARGE = "\n  - {step: start, tool: {kind: python, code: \"result = {'text': 'x' * 300000}\"}}\n"
PARENT = """
  - step: start
    tool: {kind: playbook, path: large}
    next: {arcs: [{step: wait}]}
  - step: wait
    tool: {kind: signal, signal: approval}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop, args: {size: "{{ start.text | length }}"}}}
"""
FAILING = """
  - step: start
    tool: {kind: python, code: "result = {'text': 'x' * 300000}"}
    next: {arcs: [{step: wait}]}
  - step: wait
    tool: {kind: signal, signal: approval}
    next: {arcs: [{step: check}]}
  - step: check
    tool: {kind: python, args: {text: "{{ start.text }}", ok: "{{ wait.ok }}"}, code: "result = {'n': len(text) // ok}"}
"""


class Later:
    """The broker's clock, some time from now."""

    def __init__(self, bus: JetStreamBus) -> None:
        self._bus, self.ahead, self._base = bus, 0.0, 0.0

    async def read(self) -> "Later":
        self._base = await self._bus.time()
        return self

    def now(self) -> float:
        return self._base + self.ahead

    @property
    def skew(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Stand:
    """A stack with a read model, and a keeper of the test's own beside its projector's, which finds no policy."""

    def __init__(self, on: Running, database: Database, keeper: Keeper, clock: Later) -> None:
        self.on, self.database, self.keeper, self.clock = on, database, keeper, clock

    async def once(self, ahead: float = 7200.0) -> None:
        await self.clock.read()
        self.clock.ahead = ahead
        await self.keeper.once()

    async def results(self) -> set[str]:
        messages = await self.on.bus.read(topology.RESULTS, [f"{subjects.RESULTS}.>"])
        return {message.subject.split(".")[2] for message in messages}

    async def fetch(self, query: str) -> list[Any]:
        connection = await asyncpg.connect(self.on.stack.dsn())
        try:
            return [tuple(row) for row in await connection.fetch(query)]
        finally:
            await connection.close()

    async def related(self, how: str) -> str:
        query = f"SELECT execution_id FROM noetl.execution WHERE {how}"
        found = await until(lambda: self.fetch(query), "it is in the read model", WAIT_S, every_s=0.05)
        return str(found[0][0])

    async def projected(self, **statuses: str) -> None:
        """The read model has them so."""
        query = "SELECT execution_id, status FROM noetl.execution"
        await until(lambda: self.fetch(query), "they are projected", WAIT_S, every_s=0.05,
                    so=lambda found: statuses.items() <= dict(found).items())


@pytest.fixture
def home() -> Iterator[Path]:
    """Not pytest's folder, into which the user of PostgreSQL may not go."""
    with tempfile.TemporaryDirectory(prefix="noetl-retention-") as folder:
        yield Path(folder)


@asynccontextmanager
async def standing(home: Path, kept: tuple[str, ...] = KEPT) -> AsyncIterator[Stand]:
    async with running(home / "one", postgres=True) as on:
        for name, workflow in (("large", LARGE), ("parent", PARENT), ("failing", FAILING)):
            await on.register(name, workflow)
        bus = await connect("keeper", on.stack.settings_for("projector"))
        database = Database(on.stack.dsn(PROJECTOR))
        clock = Later(on.bus)
        try:
            settings = Settings(partitions=on.partitions, retention=kept)
            yield Stand(on, database, Keeper(bus, database, settings, clock), clock)
        finally:
            database.close()
            await bus.close()


async def waiting(on: Running, execution_id: str) -> None:
    partition = subjects.partition_of(execution_id, on.partitions)
    subject = subjects.written(partition, execution_id, ["waiting"])
    await until(lambda: on.bus.read(topology.events_stream(partition), subject), "it waits", WAIT_S, every_s=0.05)


async def rerun(on: Running, execution_id: str, key: str) -> None:
    body = msgspec.json.encode(Control(execution_id))
    await on.bus.append(subjects.RERUN, body, headers={"Nats-Msg-Id": key})


async def test_what_is_old_goes_and_the_family_of_one_that_lives_stays(home: Path) -> None:
    async with standing(home) as stand:
        on = stand.on
        old, parent = await on.start("large"), await on.start("parent")
        await on.ended(old)
        child_id = await stand.related(f"parent_id = '{parent}'")
        await on.ended(child_id)
        await stand.projected(**{old: "completed", child_id: "completed", parent: "running"})
        log = await on.log()
        await stand.once(30.0)
        assert await stand.results() == {old, child_id, parent}  # they are not old yet
        await stand.once()
        assert await stand.results() == {child_id, parent}
        assert await stand.fetch("SELECT execution_id FROM noetl.purged") == [(old,)]
        left = await stand.fetch("SELECT DISTINCT execution_id FROM noetl.record")
        assert {row[0] for row in left} == {parent, child_id}
        assert await stand.fetch(f"SELECT status, result FROM noetl.execution WHERE execution_id = '{old}'") == [
            ("completed", None)]
        assert stand.keeper.told.kept == {"results": 1, "rows": 1}
        assert stand.keeper.told.removed["results"] >= 1
        assert stand.keeper.told.removed["rows"] > 0
        assert await on.log() == log

        await on.signal(parent, "approval", {"ok": 1})
        ended = await on.ended(parent)
        assert ended.result is not None
        assert ended.result.value == {"size": 300_000}  # of a result that its child has stored
        await stand.projected(**{parent: "completed"})
        await stand.once()
        assert await stand.results() == set()
        assert await stand.fetch("SELECT count(*) FROM noetl.record") == [(0,)]
        assert stand.keeper.told.kept == {"results": 0, "rows": 0}
        await stand.once()  # again: there is nothing


async def test_what_a_rerun_took_over_stays_until_it_is_over(home: Path) -> None:
    async with standing(home) as stand:
        on = stand.on
        first = await on.start("failing")
        await waiting(on, first)
        await on.signal(first, "approval", {"ok": 0})
        assert (await on.ended(first)).status == "failed"
        await rerun(on, first, "again")
        second = await stand.related(f"rerun_of = '{first}'")
        assert (await on.ended(second)).status == "failed"
        await stand.projected(**{first: "failed", second: "failed"})
        families = Families()
        connection = await asyncpg.connect(on.stack.dsn())
        try:
            later = await connection.fetchval("SELECT now() + interval '1 hour'")
            assert sorted(await families.old(connection, [second, first], later)) == sorted([first, second])
        finally:
            await connection.close()
        reruns = Reruns(on.bus, Plans(on.bus), on.partitions, Kept(on.bus, await stand.clock.read(), KEPT))
        assert isinstance(await reruns.prepare(Control(first), "young"), Prepared)
        stand.clock.ahead = 61.0
        refused = await reruns.prepare(Control(first), "old")
        assert refused == (f"execution {first} cannot be taken over: it ended over 1m ago, and takes over large "
                           "results, which are kept no longer than that")
        await stand.once()
        assert first not in await stand.results()
        assert "cannot be taken over" in str(await reruns.prepare(Control(first), "gone"))


async def test_what_was_cut_short_is_found_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with standing(home) as stand:
        old = await stand.on.start("large")
        await stand.on.ended(old)
        await stand.projected(**{old: "completed"})
        real = sweep.delete

        async def cut(connection: asyncpg.Connection, table: str, batch: list[str]) -> int:
            if table == "loop":
                raise Unavailable("cut short")
            return await real(connection, table, batch)

        monkeypatch.setattr(sweep, "delete", cut)
        with pytest.raises(Unavailable, match="cut short"):
            await stand.once()
        assert await stand.fetch("SELECT execution_id FROM noetl.purged") == [(old,)]
        assert await stand.fetch("SELECT count(*) FROM noetl.step_run") == [(0,)]
        assert await stand.fetch("SELECT count(*) > 0 FROM noetl.record") == [(True,)]
        monkeypatch.undo()
        await stand.once()
        assert await stand.fetch("SELECT count(*) FROM noetl.record") == [(0,)]
        assert await stand.fetch("SELECT count(*) FROM noetl.task_run") == [(0,)]


class Behind:
    """A read model that has seen nothing."""

    async def run(self, work: Any) -> list[Any]:
        return []


async def test_nothing_goes_while_the_read_model_is_behind(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with standing(home) as stand:
        old = await stand.on.start("large")
        await stand.on.ended(old)
        await stand.projected(**{old: "completed"})
        before = await stand.on.bus.time()
        bus, partitions = stand.on.bus, stand.on.partitions
        assert await unseen(bus, stand.database, partitions, before) == ""
        why = await unseen(bus, cast(Database, Behind()), partitions, before)
        assert why == f"the read model is behind the log in partition {subjects.partition_of(old, partitions)}"
        assert await unseen(bus, cast(Database, Behind()), partitions, before - 3600) == ""

        async def behind(*_: object) -> str:
            return why

        monkeypatch.setattr(sweep, "unseen", behind)
        with pytest.raises(Unavailable, match="behind the log"):
            await stand.once()
        assert await stand.results() == {old}
        monkeypatch.undo()
        await stand.once()
        assert await stand.results() == set()


async def test_a_change_counts_for_results_when_every_router_has_seen_it(home: Path) -> None:
    async with standing(home, ()) as stand:
        old = await stand.on.start("large")
        await stand.on.ended(old)
        await stand.projected(**{old: "completed"})
        await stand.once()
        assert await stand.results() == {old}  # nobody has said anything
        words = ("admin", "retention", "set", *KEPT, "dead_letters=3d", "--yes", "-o", "json")
        done = await asyncio.to_thread(run, *words, "--context", str(stand.on.context_file), cwd=home)
        assert done.returncode == 0, done.stderr
        said = msgspec.json.decode(done.stdout)
        assert (said["kept"]["results"], said["streams"]) == (60.0, [topology.DEAD])
        info = await stand.on.bus.requests.api(f"STREAM.INFO.{topology.DEAD}")
        assert info["config"]["max_age"] == int(3 * 86_400e9)
        now = await retention.policy(stand.on.bus, ())
        await stand.clock.read()
        stand.clock.ahead = now.at - stand.clock.now() + 9.0
        await stand.keeper.results(now)
        assert stand.keeper.told.passed == {}
        await stand.once()
        assert await stand.results() == set()
        found = await asyncio.to_thread(run, "doctor", "-o", "json", "--context", str(stand.on.context_file), cwd=home)
        checks = {check["name"]: check for check in msgspec.json.decode(found.stdout)["checks"]}
        assert checks["retention.policy"]["found"] == "kept: results 1m, read_model 1m, requests 7d, dead_letters 3d"
        assert checks["streams.drift"]["status"] == "ok"
