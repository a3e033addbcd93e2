"""The embedded PostgreSQL under its keeper: real servers that die, freeze, or take long to come back."""

import asyncio
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import structlog

from services.cli.console.exits import CliError
from services.cli.executions.readmodel import connected
from shared.bus.ports import Bus, Clock
from shared.errors import Unavailable
from shared.runtime.embedded import postgres, postgres_keeper
from shared.runtime.embedded.postgres_keeper import PostgresKeeper
from shared.runtime.embedded.postgres_roles import PROJECTOR, READER
from shared.runtime.embedded.stack import Options, Stack
from shared.runtime.embedded.unit import Service
from shared.runtime.service.settings import Settings
from tests.support.processes import gone, running
from tests.support.waiting import until

WITHIN_S = 40.0
Lines = list[MutableMapping[str, Any]]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pg") as name:
        data = Path(name) / "postgres"
        try:
            yield data
        finally:
            postgres.stop(data)


@asynccontextmanager
async def kept(folder: Path) -> AsyncIterator[tuple[PostgresKeeper, postgres.Server]]:
    server, stop = await asyncio.to_thread(postgres.start, folder), asyncio.Event()
    keeper = PostgresKeeper(folder, server, stop)
    task = asyncio.create_task(keeper.keep())
    try:
        yield keeper, server
    finally:
        stop.set()
        await task


def pid_in(folder: Path) -> int:
    pid = postgres.pid_of(folder)
    assert pid is not None
    return pid


async def recovered(dsn: str) -> Any:
    """The answer of a server that may have to replay its log first."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                return await answer(dsn)
            except asyncpg.CannotConnectNowError:
                await asyncio.sleep(0.1)


async def answer(dsn: str, query: str = "SELECT 1") -> object:
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


def told(lines: Lines, event: str) -> Lines:
    return [line for line in lines if line["event"] == event]


async def test_a_frozen_server_is_told_and_left_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ASK_S", 0.5), ("ASK_EVERY_S", 0.1), ("SILENT_S", 1.0)):
        monkeypatch.setattr(postgres_keeper, name, value)
    with structlog.testing.capture_logs() as lines:
        async with kept(folder) as (_, server):
            pid = pid_in(folder)
            os.kill(pid, signal.SIGSTOP)
            try:
                await until(lambda: told(lines, "stack.no_answer"), "it is said that nobody answers", WITHIN_S)
                await asyncio.sleep(1.5)  # asked again meanwhile, and not told again
            finally:
                os.kill(pid, signal.SIGCONT)
            await until(lambda: told(lines, "stack.answers"), "it answers", WITHIN_S, instead=lambda: lines)
            assert postgres.pid_of(folder) == pid
            assert await answer(server.dsn(READER)) == 1
    (line,) = told(lines, "stack.no_answer")
    assert (line["pid"], line["error"], f"kill -9 {pid}" in line["fix"]) == (pid, "no answer within 0.5 s", True)
    assert told(lines, "supervisor.restart") == []


async def test_a_frozen_server_is_ended_for_certain(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres.start(folder)
    pid = pid_in(folder)
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(postgres, "STOP_TIMEOUT_S", 1.0)
    await asyncio.to_thread(postgres.stop, folder)
    assert gone(pid)


def slow_to_recover(folder: Path, seconds: float) -> None:
    """As after a crash with much to replay: every file that it asks for takes that long, and is not there."""
    with (folder / "postgresql.auto.conf").open("a") as file:
        file.write(f"restore_command = 'sleep {seconds}; false'\nhot_standby = off\n")
    (folder / "recovery.signal").touch()


async def test_a_server_that_recovers_for_long_is_waited_for_and_said_to(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_keeper, "ASK_EVERY_S", 0.1)
    monkeypatch.setattr(postgres_keeper, "SILENT_S", 1.0)
    with structlog.testing.capture_logs() as lines:
        async with kept(folder) as (keeper, server):
            await answer(server.dsn(PROJECTOR), "CREATE TABLE noetl.kept AS SELECT 42 AS answer")
            monkeypatch.setattr(postgres, "START_S", 1)
            slow_to_recover(folder, 2)
            os.kill(pid_in(folder), signal.SIGKILL)
            await until(lambda: keeper.recovering, "it recovers", WITHIN_S)
            recovering = pid_in(folder)
            await until(lambda: told(lines, "stack.answers"), "it answers", WITHIN_S, instead=lambda: lines)
            assert (postgres.pid_of(folder), keeper.recovering) == (recovering, False)
            assert await answer(server.dsn(READER), "SELECT answer FROM noetl.kept") == 42
    assert told(lines, "postgres.recovering")[0]["pid"] == recovering
    assert "the database system is" in told(lines, "stack.no_answer")[-1]["error"]
    assert len(told(lines, "supervisor.restart")) == 1


async def test_a_stack_waits_longer_for_a_server_that_recovers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ready` has less time than the recovery takes, and gets more as long as PostgreSQL says that it is starting."""
    monkeypatch.setattr(postgres_keeper, "ASK_EVERY_S", 0.1)
    postgres.start(folder)
    monkeypatch.setattr(postgres, "START_S", 1)
    slow_to_recover(folder, 3)
    pid = pid_in(folder)
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)
    services = [Service("projector", "no.such.module", lambda: in_need, needs_postgres=True)]
    async with Stack(Options(folder.parent, postgres=True, drain_s=2.0), services) as stack:
        await until(lambda: stack.database, "the stack has a database", WITHIN_S)
        asked = time.monotonic()
        await stack.ready(1.5)
        assert time.monotonic() - asked > 1.5
    assert postgres.pid_of(folder) is None


async def in_need(
    bus: Bus, settings: Settings, *, clock: Clock, stop: asyncio.Event, ready: Callable[[], None]  # noqa: ARG001
) -> None:
    while not stop.is_set():
        try:
            await answer(settings.postgres_dsn)
            ready()
            await stop.wait()
        except asyncpg.CannotConnectNowError:
            await asyncio.sleep(0.05)


async def test_an_address_outside_the_folder_stays_the_same_from_start_to_start() -> None:
    with tempfile.TemporaryDirectory(prefix="pg") as name:
        data = Path(name) / ("long" * 30) / "data"
        try:
            async with kept(data) as (_, server):
                assert not server.socket.startswith(name)
                pid = pid_in(data)
                os.kill(pid, signal.SIGKILL)
                await until(lambda: postgres.pid_of(data), "another server", WITHIN_S,
                            so=lambda now: now not in (None, pid))
                await until(Path(server.socket, postgres.SOCKET).exists, "a socket", WITHIN_S)
            assert await answer(postgres.start(data).dsn(READER)) == 1
            assert postgres.start(data) == server
        finally:
            postgres.stop(data)
        assert not os.path.exists(server.socket)  # noqa: ASYNC240 - nothing else runs


@pytest.fixture
def stranger(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the server's user, in whose lock file it stands."""
    postgres.start(folder)
    pid = pid_in(folder)
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)
    process = subprocess.Popen(["sleep", "600"], user=folder.stat().st_uid)
    lock = folder / "postmaster.pid"
    lock.write_text(f"{process.pid}\n" + lock.read_text().partition("\n")[2])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_process_that_got_the_servers_pid_is_neither_taken_for_it_nor_stopped(
    folder: Path, stranger: subprocess.Popen[bytes]
) -> None:
    assert postgres.pid_of(folder) is None
    postgres.stop(folder)
    assert running(stranger.pid)


@pytest.mark.parametrize("ended", [False, True])
async def test_a_server_starts_although_its_last_pid_is_a_strangers_or_was_never_reaped(
    folder: Path, stranger: subprocess.Popen[bytes], ended: bool
) -> None:
    if ended:
        stranger.kill()  # a zombie until the fixture waits for it
    server = postgres.start(folder)
    assert pid_in(folder) != stranger.pid
    assert await recovered(server.dsn(READER)) == 1
    assert ended or running(stranger.pid)


async def test_a_start_that_fails_is_told_with_the_end_of_its_log(folder: Path) -> None:
    postgres.stop(folder)
    file = folder / "postgresql.auto.conf"
    before = file.read_text()
    file.write_text(before + "no_such_setting = 1\n")
    try:
        with pytest.raises(Unavailable, match=r"no_such_setting.*\(see .*log"):
            postgres.start(folder)
    finally:
        file.write_text(before)


async def test_a_server_that_dies_while_it_is_asked_is_one_clear_error(folder: Path) -> None:
    async def ask() -> None:
        async with connected(postgres.start(folder).dsn(READER)) as connection:
            os.kill(pid_in(folder), signal.SIGKILL)
            await connection.fetchval("SELECT pg_sleep(30)")

    with pytest.raises(CliError, match=r"no answer from PostgreSQL: .*is `noetlctl up` running"):
        await ask()
