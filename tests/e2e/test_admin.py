"""Backup, restore, rebuild and purge on whole stacks."""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from services.cli import admin_backup, admin_purge, admin_rebuild_projection, admin_restore, context
from services.cli.exits import CliError
from services.cli.projected import ReadModel
from services.cli.verifying import Checker
from shared.bus import topology
from shared.errors import Refused, Unavailable
from shared.events import subjects
from shared.runtime import results
from tests.support.running import Running, running, said, until

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


async def waiting(on: Running, execution_id: str) -> None:
    async def waits() -> bool:
        return (await on.bus.get(*_last(on, execution_id, "waiting"))) is not None

    await until(waits)


def _last(on: Running, execution_id: str, writer: str) -> tuple[str, str]:
    partition = subjects.partition_of(execution_id, on.partitions)
    return topology.events_stream(partition), subjects.event(partition, execution_id, writer)


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
        backup = admin_backup._backup(home / "backup", False, "json", one.context_file)
        code, saved = await said(backup)
        log = await one.log()
        with pytest.raises(CliError, match="services are running"):
            await admin_restore._restore(home / "backup", None, 1, False, "json", one.context_file)
    assert (code, saved["secrets"]) == (0, False)
    assert "KV_noetl_keychain" not in {stream["stream"] for stream in saved["streams"]}

    restore = partial(admin_restore._restore, home / "backup", home / "two", 1)
    code, restored = await said(restore(False, "json", None))
    assert (code, restored["restored"], restored["read_model"]) == (0, True, "none")
    with pytest.raises(Refused, match="the broker is not empty"):
        await restore(False, "json", None)

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

        async def projected() -> bool:
            return await rows(two.stack.dsn) == dict.fromkeys((large, unnamed, named), "completed")

        await until(projected)


async def test_the_read_model_comes_back_and_old_results_go(home: Path) -> None:
    async with running(home / "one", postgres=True) as one:
        for name, workflow in (("hello", HELLO), ("large", LARGE), ("approval", APPROVAL), ("parent", PARENT)):
            await one.register(name, workflow)
        hello, large, parent = await one.start("hello"), await one.start("large"), await one.start("parent")
        await one.ended(hello)
        ref = (await one.ended(large)).result
        await waiting(one, parent)
        await one.bus.append(subjects.dead("requests"), b"{}")
        settings, dsn = context.find(one.context_file), one.stack.dsn

        async def projected() -> bool:
            ends = {p: await one.bus.last_seq(topology.events_stream(p)) for p in range(one.partitions)}
            cursors = await rows(dsn, "SELECT partition, seq FROM noetl.cursor")
            return cursors == {p: last for p, last in ends.items() if last} and len(await rows(dsn)) == 4

        await until(projected)
        (child,) = set(await rows(dsn)) - {hello, large, parent}
        await waiting(one, child)
        await until(projected)
        events = "SELECT execution_id || event_id, payload::text FROM noetl.event"
        before = await rows(dsn, events)
        code, rebuilt = await said(admin_rebuild_projection._rebuild(settings, "json"))
        assert (code, rebuilt["executions"], rebuilt["events"]) == (0, 4, len(before))
        assert await rows(dsn, events) == before

        now = 4e9  # what is over has ended before
        purge = partial(admin_purge._purge, settings, now, ("completed", "failed", "cancelled"), 100)
        _, looked = await said(purge(True, "json"))
        assert await rows(dsn, events) == before
        _, purged = await said(purge(False, "json"))
        assert set(purged["executions"]) == {hello, large}
        assert purged["removed"] == looked["removed"]
        assert purged["removed"]["results"] == 1
        assert purged["removed"]["dead_letters"] == 1
        assert ref is not None
        assert ref.ref is not None
        with pytest.raises(Unavailable, match="may be purged"):
            await results.load(one.bus, ref.ref)
        assert (await rows(dsn))[large] == "completed"
        kept = await rows(dsn, "SELECT DISTINCT execution_id, '' FROM noetl.event")
        assert parent in kept
        assert not {hello, large} & set(kept)
        assert await one.bus.read(topology.RESULTS, [f"{subjects.RESULTS}.{parent}.>"])
        assert (await one.summary(hello)).status == "completed"  # the log has it all
        _, again = await said(purge(False, "json"))
        assert (again["executions"], again["removed"]["rows"]) == ([], 0)
        async with ReadModel(dsn) as model:
            proved = await Checker(one.bus, one.partitions, model, 5.0).one(hello)
        assert proved is not None
        assert (proved[0].verdict, "purged on" in proved[0].projection.reason) == ("verified", True)
        await said(admin_rebuild_projection._rebuild(settings, "json"))
        assert await rows(dsn, events) == before
