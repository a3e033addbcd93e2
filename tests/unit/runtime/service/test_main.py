"""The shell around a service, on a fake bus: ready, drain, exit codes."""

# ruff: noqa: ARG001 - the fakes have the signature of a service

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from shared.bus.ports import Bus, Clock
from shared.runtime.embedded.nats_server import free_port
from shared.runtime.service import main
from shared.runtime.service.clock import SystemClock
from shared.runtime.service.health import Health
from shared.runtime.service.main import FAILED, NOT_DRAINED, OK, hold
from shared.runtime.service.settings import Settings
from tests.support.paths import ROOT
from tests.support.services import obedient

SETTINGS = Settings(drain_s=0.2)
CLOCK = SystemClock()
Ready = Callable[[], None]
NO_BUS: Bus = None  # type: ignore[assignment]  # these services never touch it


async def deaf(bus: Bus, settings: Settings, *, clock: Clock, stop: asyncio.Event, ready: Ready) -> None:
    ready()
    await asyncio.Event().wait()


async def short(bus: Bus, settings: Settings, *, clock: Clock, stop: asyncio.Event, ready: Ready) -> None:
    ready()


async def broken(bus: Bus, settings: Settings, *, clock: Clock, stop: asyncio.Event, ready: Ready) -> None:
    raise OSError("cannot")


async def life(serve: main.Serve, *, stop_after: float | None = 0.05) -> int:
    stop = asyncio.Event()
    if stop_after is not None:
        asyncio.get_running_loop().call_later(stop_after, stop.set)
    return await asyncio.wait_for(hold("x", serve, NO_BUS, SETTINGS, CLOCK, stop, Health()), 5)


async def test_a_service_that_stops_when_asked_ends_well() -> None:
    assert await life(obedient) == OK


async def test_a_service_that_does_not_drain_in_time_is_cancelled_and_said_so() -> None:
    assert await life(deaf) == NOT_DRAINED


async def test_a_service_that_returns_unasked_has_failed() -> None:
    assert await life(short, stop_after=None) == FAILED


async def test_a_service_that_breaks_hands_on_its_error() -> None:
    with pytest.raises(OSError, match="cannot"):
        await life(broken, stop_after=None)


async def test_readiness_ends_when_draining_begins() -> None:
    health, stop, seen = Health(), asyncio.Event(), []

    async def serve(bus: Bus, settings: Settings, *, clock: Clock, stop: asyncio.Event, ready: Ready) -> None:
        ready()
        seen.append(health.ready)
        stop.set()
        await asyncio.sleep(0.05)
        seen.append(health.ready)

    await hold("x", serve, NO_BUS, SETTINGS, CLOCK, stop, health)
    assert seen == [True, False]


def test_a_bad_setting_ends_with_its_own_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NOETL_SLOTS", "none")
    with pytest.raises(SystemExit) as ended:
        main.run_service("worker", obedient)
    assert ended.value.code == main.BAD_SETTINGS
    assert "slots" in capsys.readouterr().err


async def test_asked_a_second_time_it_does_not_go_on_draining() -> None:
    stop, hurry = asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, stop.set)
    asyncio.get_running_loop().call_later(0.1, hurry.set)
    async with asyncio.timeout(30):
        assert await hold("x", deaf, NO_BUS, Settings(drain_s=60), CLOCK, stop, Health(), hurry) == main.NOT_DRAINED


def test_a_service_warns_of_a_user_that_everybody_has() -> None:
    url = f"nats://127.0.0.1:{free_port()}"
    environ = {**os.environ, "NOETL_NATS_URL": url, "NOETL_BROKER_AUTH": "shared"}
    command = [sys.executable, "-m", "services.scheduler"]
    with subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = [process.stderr.readline() for _ in range(2)]
            assert '"event": "service.shared_user"' in said[1]
        finally:
            process.kill()


@pytest.mark.parametrize("name", ["router", "scheduler", "worker", "projector", "pools"])
def test_a_service_waits_for_the_broker_and_stops_when_asked(name: str) -> None:
    url = f"nats://127.0.0.1:{free_port()}"
    with subprocess.Popen(
        [sys.executable, "-m", f"services.{name}"],
        cwd=ROOT,
        env={**os.environ, "NOETL_NATS_URL": url, "NOETL_POSTGRES_DSN": "postgresql://nowhere/x"},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            assert '"event": "service.starting"' in process.stderr.readline()
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == OK
        finally:
            process.kill()
