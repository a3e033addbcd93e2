"""The embedded stack on a real nats-server, with small services in place of the engine's."""

# ruff: noqa: ARG001 - the fakes have the signature of a service

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.bus import topology
from shared.bus.ports import Bus, Clock
from shared.errors import Refused
from shared.runtime.embedded import stack as stack_module
from shared.runtime.embedded.broker_watch import BrokerWatch
from shared.runtime.embedded.stack import Options, Stack
from shared.runtime.embedded.unit import Service
from shared.runtime.service import secrets as service_secrets
from shared.runtime.service import supervisor
from shared.runtime.service.main import Serve
from shared.runtime.service.settings import BadSettings, Settings, passed_on, read_settings
from shared.runtime.service.supervisor import GaveUp
from tests.support.services import obedient
from tests.support.waiting import until

Ready = Callable[[], None]


def quick(folder: Path) -> Options:
    return Options(folder, drain_s=2.0)


def service(name: str, serve: Serve, *, per_pool: bool = False) -> Service:
    return Service(name, "no.such.module", lambda: serve, per_pool)


async def test_it_tells_its_broker_in_its_own_way_alone(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="NOETL_BROKER_AUTH=jwt"):
        async with Stack(Options(tmp_path, asked=Settings(broker_auth="jwt")), []):
            pass


async def test_every_service_gets_its_own_user_and_the_streams_are_there(tmp_path: Path) -> None:
    seen: dict[str, str] = {}

    async def look(bus: Bus, settings: Settings, *, clock: Clock, stop: asyncio.Event, ready: Ready) -> None:
        seen[settings.nats_user] = settings.pool
        if settings.nats_user == "router":
            assert await bus.last_seq(topology.events_stream(0)) == 0
        await obedient(bus, settings, clock=clock, stop=stop, ready=ready)

    services = [service("router", look), service("scheduler", look), service("worker", look, per_pool=True)]
    async with Stack(Options(tmp_path, pools=("default", "gpu"), drain_s=2.0), services) as stack:
        await stack.ready(10)
    assert seen == {
        "router": "default",
        "scheduler": "default",
        "worker_default": "default",
        "worker_gpu": "gpu",
    }


async def test_a_service_that_breaks_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_S", 0.001)
    lives = []

    async def shaky(bus: Bus, settings: Settings, *, clock: Clock, stop: asyncio.Event, ready: Ready) -> None:
        lives.append(1)
        if len(lives) < 3:
            raise OSError("not yet")
        await obedient(bus, settings, clock=clock, stop=stop, ready=ready)

    async with Stack(quick(tmp_path), [service("router", shaky)]) as stack:
        await stack.ready(10)
    assert len(lives) == 3


async def test_a_service_that_always_breaks_fails_the_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_S", 0.001)

    async def broken(bus: Bus, settings: Settings, *, clock: Clock, stop: asyncio.Event, ready: Ready) -> None:
        raise OSError("never")

    async with Stack(quick(tmp_path), [service("router", broken)]) as stack:
        with pytest.raises(GaveUp, match="router failed 5 times in a row: never"):
            await stack.ready(10)


async def test_a_killed_nats_server_is_started_again_with_its_data(tmp_path: Path) -> None:
    counted = asyncio.Queue[int]()

    async def writer(bus: Bus, settings: Settings, *, clock: Clock, stop: asyncio.Event, ready: Ready) -> None:
        ready()
        while not stop.is_set():
            try:
                counted.put_nowait(await bus.kv_put(topology.CURSORS, "x", b"1"))
            except Exception:  # away for a moment, which is the point
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.02)

    async with Stack(quick(tmp_path), [service("router", writer)]) as stack:
        before = await asyncio.wait_for(counted.get(), 10)
        pid = stack.server.pid
        os.kill(pid, signal.SIGKILL)
        await until(lambda: stack.server.running and stack.server.pid != pid, "another server", 20)
        while not counted.empty():
            counted.get_nowait()
        assert await asyncio.wait_for(counted.get(), 20) > before


async def test_nothing_is_left_running_when_the_block_is_cancelled(tmp_path: Path) -> None:
    pids: list[int] = []
    up = asyncio.Event()

    async def use() -> None:
        async with Stack(quick(tmp_path), [service("router", obedient)]) as stack:
            pids.append(stack.server.pid)
            up.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(use())
    await asyncio.wait_for(up.wait(), 10)
    task.cancel()
    began = time.monotonic()
    await asyncio.wait({task})
    assert time.monotonic() - began < 5
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_child_reads_the_settings_it_was_given() -> None:
    settings = Settings(
        pools=("a", "b"), pool="b", health_port=80, instance="me", log_level="debug", nats_password="word",
        nats_url="nats://u:p@here:1", postgres_dsn="postgresql://u:p@h/d",
    )
    variables, secrets = passed_on(settings)
    assert set(secrets) == {"nats_password", "nats_url", "postgres_dsn"}
    assert not [value for value in variables.values() if value and value in secrets.values()]
    with service_secrets.handing(secrets) as descriptor:
        given = {**variables, service_secrets.DESCRIPTOR: str(os.dup(descriptor))}
        assert read_settings(given) == settings
    with pytest.raises(BadSettings, match="NOETL_SECRETS_FD"):
        read_settings(given)


async def test_a_broker_that_does_not_write_any_more_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons: list[str] = []

    async def look(watch: BrokerWatch) -> str:
        return reasons.pop() if reasons else ""

    monkeypatch.setattr(BrokerWatch, "look", look)
    monkeypatch.setattr(stack_module, "EVERY_S", 0.05)
    async with Stack(quick(tmp_path), [service("router", obedient)]) as stack:
        await stack.ready(10)
        first = stack.server.pid
        assert stack.server.max_file_store > 0
        reasons.append("it does not write any more")
        await until(lambda: not reasons and stack.server.running and stack.server.pid != first, "another server", 20)
