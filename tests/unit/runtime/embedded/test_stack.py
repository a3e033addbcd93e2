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
from shared.bus.ports import Bus
from shared.runtime import supervise
from shared.runtime.main import Serve
from shared.runtime.settings import Settings
from shared.runtime.stack import Options, Stack
from shared.runtime.supervise import GaveUp
from shared.runtime.unit import Service, environment


def quick(folder: Path) -> Options:
    return Options(folder, drain_s=2.0)


def service(name: str, serve: Serve, *, per_pool: bool = False) -> Service:
    return Service(name, "no.such.module", lambda: serve, per_pool)


async def waiting(bus: Bus, settings: Settings, *, stop: asyncio.Event, ready: Callable[[], None]) -> None:
    ready()
    await stop.wait()


async def test_every_service_gets_its_own_user_and_the_streams_are_there(tmp_path: Path) -> None:
    seen: dict[str, str] = {}

    async def look(bus: Bus, settings: Settings, *, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        seen[settings.nats_user] = settings.pool
        if settings.nats_user == "router":
            assert await bus.last_seq(topology.events_stream(0)) == 0
        await waiting(bus, settings, stop=stop, ready=ready)

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
    monkeypatch.setattr(supervise, "FIRST_PAUSE_S", 0.001)
    lives = []

    async def shaky(bus: Bus, settings: Settings, *, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        lives.append(1)
        if len(lives) < 3:
            raise OSError("not yet")
        await waiting(bus, settings, stop=stop, ready=ready)

    async with Stack(quick(tmp_path), [service("router", shaky)]) as stack:
        await stack.ready(10)
    assert len(lives) == 3


async def test_a_service_that_always_breaks_fails_the_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "FIRST_PAUSE_S", 0.001)

    async def broken(bus: Bus, settings: Settings, *, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        raise OSError("never")

    async with Stack(quick(tmp_path), [service("router", broken)]) as stack:
        with pytest.raises(GaveUp, match="router failed 5 times in a row: never"):
            await stack.ready(10)


async def test_a_killed_nats_server_is_started_again_with_its_data(tmp_path: Path) -> None:
    counted = asyncio.Queue[int]()

    async def writer(bus: Bus, settings: Settings, *, stop: asyncio.Event, ready: Callable[[], None]) -> None:
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
        async with asyncio.timeout(20):
            while not stack.server.running or stack.server.pid == pid:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
            while not counted.empty():
                counted.get_nowait()
            assert await counted.get() > before


async def test_nothing_is_left_running_when_the_block_is_cancelled(tmp_path: Path) -> None:
    pids: list[int] = []
    up = asyncio.Event()

    async def use() -> None:
        async with Stack(quick(tmp_path), [service("router", waiting)]) as stack:
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
    from shared.runtime.settings import read_settings

    settings = Settings(pools=("a", "b"), pool="b", health_port=80, instance="me", log_level="debug")
    assert read_settings(environment(settings)) == settings
