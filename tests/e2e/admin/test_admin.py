"""Backup, restore, rebuild and purge on whole stacks."""

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from services.cli.console import exits
from services.cli.verify.checker import Checker
from services.cli.verify.read_model import ReadModel
from shared.bus import dead_letters, topology
from shared.errors import Unavailable
from shared.events import subjects
from shared.runtime.stores import results
from tests.support.cli import Result, run
from tests.support.running import WAIT_S, Running, running
from tests.support.waiting import until

OLD_S = 1
HELLO = "\n  - {step: start, tool: {kind: noop}}\n"
LARGE = "\n  - {step: start, tool: {kind: python, code: \"result = {'text': 'x' * 300000}\"}}\n"
APPROVAL = """
  - step: start
    tool: {kind: signal, signal: approval}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop, args: {answer: "{{ start.ok }}"}}}
"""
PARENT = """
  - step: start
    tool:
      - make: {kind: python, code: "result = {'text': 'x' * 300000}"}
      - call: {kind: playbook, path: approval}
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """Not pytest's folder, into which the user of PostgreSQL may not go."""
    with tempfile.TemporaryDirectory(prefix="noetl-admin-") as folder:
        yield Path(folder)


async def admin(home: Path, *args: str) -> Result:
    return await asyncio.to_thread(run, "admin", *args, "-o", "json", cwd=home)


async def said(home: Path, *args: str) -> Any:
    done = await admin(home, *args)
    assert done.returncode == exits.OK, done.stderr
    return json.loads(done.stdout)


async def waiting(on: Running, execution_id: str) -> None:
    await until(lambda: on.bus.read(*_written(on, execution_id, "waiting")), "it waits", WAIT_S, every_s=0.05)


def _written(on: Running, execution_id: str, writer: str) -> tuple[str, list[str]]:
    partition = subjects.partition_of(execution_id, on.partitions)
    return topology.events_stream(partition), subjects.written(partition, execution_id, [writer])


async def rows(dsn: str, query: str = "SELECT execution_id, status FROM noetl.execution") -> dict[Any, Any]:
    connection = await asyncpg.connect(dsn)
    try:
        return {row[0]: row[1] for row in await connection.fetch(query)}
    except asyncpg.UndefinedTableError:
        return {}
    finally:
        await connection.close()


async def test_a_backup_is_restored_elsewhere_and_what_waited_goes_on(home: Path) -> None:
    async with running(home / "one") as one:
        for name, workflow in (("large", LARGE), ("approval", APPROVAL)):
            await one.register(name, workflow)
        large, unnamed = await one.start("large"), await one.start("approval")
        named = await one.start("approval", key="order-1")
        await one.ended(large)
        await one.signal(unnamed, "approval", {"ok": 1})  # its place in the requests is its name
        await one.ended(unnamed)
        await waiting(one, named)
        saved = await said(home, "backup", str(home / "backup"), "--context", str(one.context_file))
        log = await one.log()
        refused = await admin(home, "restore", str(home / "backup"), "--context", str(one.context_file))
        assert refused.returncode == exits.CONFLICT
        assert "services are running" in refused.stderr
    assert saved["secrets"] is False
    assert "KV_noetl_keychain" not in {stream["stream"] for stream in saved["streams"]}

    restore = ("restore", str(home / "backup"), "--folder", str(home / "two"))
    restored = await said(home, *restore)
    assert (restored["restored"], restored["read_model"]) == (True, "none")
    refused = await admin(home, *restore)
    assert refused.returncode == exits.ERROR
    assert "the broker is not empty" in refused.stderr

    async with running(home / "two", postgres=True) as two:
        assert {p: found[: len(log[p])] for p, found in (await two.log()).items()} == log
        stored = (await two.summary(large)).result
        assert stored is not None
        assert stored.ref is not None
        assert len((await results.load(two.bus, stored.ref))["text"]) == 300_000
        assert await two.start("approval", key="order-1") == named
        await two.signal(named, "approval", {"ok": 2})
        ended = await two.ended(named)
        assert (ended.status, ended.result and ended.result.value) == ("completed", {"answer": 2})

        await until(lambda: rows(two.stack.dsn()), "all are in the read model", WAIT_S, every_s=0.05,
                    so=lambda found: found == dict.fromkeys((large, unnamed, named), "completed"))


async def test_the_read_model_comes_back_and_old_results_go(home: Path) -> None:
    async with running(home / "one", postgres=True) as one:
        for name, workflow in (("hello", HELLO), ("large", LARGE), ("approval", APPROVAL), ("parent", PARENT)):
            await one.register(name, workflow)
        hello, large, parent = await one.start("hello"), await one.start("large"), await one.start("parent")
        await one.ended(hello)
        ref = (await one.ended(large)).result
        await waiting(one, parent)
        await dead_letters.bury(one.bus, "requests", "NOETL_REQUESTS/1", "no path", b"{}")
        dsn = one.stack.dsn()

        async def projected() -> bool:
            ends = {p: await one.bus.last_seq(topology.events_stream(p)) for p in range(one.partitions)}
            cursors = await rows(dsn, "SELECT partition, seq FROM noetl.cursor")
            return cursors == {p: last for p, last in ends.items() if last} and len(await rows(dsn)) == 4

        await until(projected, "the read model is that of the log", WAIT_S, every_s=0.05)
        (child,) = set(await rows(dsn)) - {hello, large, parent}
        await waiting(one, child)
        await until(projected, "the read model is that of the log", WAIT_S, every_s=0.05)
        events = "SELECT execution_id || event_id, payload::text FROM noetl.event"
        before = await rows(dsn, events)
        place = ("--context", str(one.context_file))
        rebuilt = await said(home, "rebuild-projection", "--yes", *place)
        assert (rebuilt["executions"], rebuilt["events"]) == (4, len(before))
        assert await rows(dsn, events) == before

        await asyncio.sleep(OLD_S)  # whatever is over is old now
        purge = ("purge", "--older", f"{OLD_S}s", "--limit", "100", *place)
        looked = await said(home, *purge, "--dry-run")
        assert await rows(dsn, events) == before
        purged = await said(home, *purge, "--yes")
        assert set(purged["executions"]) == {hello, large}
        assert purged["removed"] == looked["removed"]
        assert purged["removed"]["results"] == 1
        assert purged["removed"]["dead_letters"] == 1
        assert ref is not None
        assert ref.ref is not None
        with pytest.raises(Unavailable, match="may have been purged"):
            await results.load(one.bus, ref.ref)
        assert (await rows(dsn))[large] == "completed"
        kept = await rows(dsn, "SELECT DISTINCT execution_id, '' FROM noetl.event")
        assert parent in kept
        assert not {hello, large} & set(kept)
        assert await one.bus.read(topology.RESULTS, [f"{subjects.RESULTS}.{parent}.>"])
        assert (await one.summary(hello)).status == "completed"  # the log has it all
        again = await said(home, *purge, "--yes")
        assert (again["executions"], again["removed"]["rows"]) == ([], 0)
        async with ReadModel(dsn) as model:
            proved = await Checker(one.bus, one.partitions, model, 5.0).one(hello)
        assert proved is not None
        assert (proved[0].verdict, "purged on" in proved[0].projection.reason) == ("verified", True)
        await said(home, "rebuild-projection", "--yes", *place)
        assert await rows(dsn, events) == before
