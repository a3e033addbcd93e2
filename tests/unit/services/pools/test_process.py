"""Workers as children: started again, ended politely, then by a second word, then for certain."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from services.cli.pool_logs import _last, _more
from services.pools import process
from services.pools.process import ProcessBackend
from shared.dsl.pools import Pool
from shared.runtime.pools import WorkerStatus
from shared.runtime.settings import Settings

POOL = Pool("etl", slots=3, provides=("eu", "gpu"), tools_disabled=("shell",), drain_s=30.0)
QUIET = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
STUBBORN = """import signal, sys, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1) if len(asked) < {} else sys.exit(3))
"""
WAIT = "print('here', flush=True)\nwhile True: time.sleep(0.05)\n"


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[ProcessBackend]:
    (tmp_path / "passwords.json").write_text('{"worker_etl": "secret"}')
    settings = Settings(nats_user="pools", passwords=str(tmp_path / "passwords.json"), logs=str(tmp_path))
    found = ProcessBackend(settings)
    yield found
    await found.close(0.0)


def program(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-c", code))


async def until(backend: ProcessBackend, is_so: Callable[[list[WorkerStatus]], bool]) -> list[WorkerStatus]:
    for _ in range(400):
        found = [each.status for each in backend.workers("etl")]
        if is_so(found):
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"it does not come: {found}")


def said(status: WorkerStatus) -> str:
    return Path(status.log).read_text() if Path(status.log).exists() else ""


async def test_a_worker_gets_its_own_settings_and_no_other_password(
    backend: ProcessBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = "import os\nprint(sorted((k, v) for k, v in os.environ.items() if k.startswith('NOETL_')), flush=True)\n"
    program(monkeypatch, QUIET + shown + WAIT)
    backend.start(POOL, "t", 1)
    (status,) = await until(backend, lambda found: bool(found) and "here" in said(found[0]))
    text = said(status)
    for name, value in (
        ("NATS_USER", "worker_etl"), ("NATS_PASSWORD", "secret"), ("POOL", "etl"), ("SLOTS", "3"), ("PASSWORDS", ""),
        ("PROVIDES", "eu,gpu"), ("TOOLS_DISABLED", "shell"), ("DRAIN_S", "30.0"), ("INSTANCE", status.name),
    ):
        assert f"('NOETL_{name}', '{value}')" in text
    assert status.name.startswith("etl-1-")


async def test_one_that_dies_is_started_again_and_its_failures_count(
    backend: ProcessBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(monkeypatch, "import sys; sys.exit(1)")
    backend.start(POOL, "t", 1)
    (status,) = await until(backend, lambda found: found[0].failures >= 2)
    assert status.ended == "exit code 1"


async def test_numbers_are_given_again_when_their_worker_is_gone(
    backend: ProcessBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(monkeypatch, QUIET + WAIT)
    backend.start(POOL, "t", 3)
    started = await until(backend, lambda found: all("here" in said(each) for each in found))
    names = [status.name for status in started]
    backend.stop(names[1], 10.0)
    await until(backend, lambda found: len(found) == 2)
    backend.start(POOL, "t", 1)
    assert sorted(each.status.name for each in backend.workers("etl")) == names


async def test_one_that_does_not_finish_in_time_is_asked_again_and_hands_back(
    backend: ProcessBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(monkeypatch, STUBBORN.format(1) + WAIT)
    backend.start(POOL, "t", 1)
    (status,) = await until(backend, lambda found: "here" in said(found[0]))
    backend.stop(status.name, 0.5)
    await until(backend, lambda found: found == [])


async def test_one_that_never_listens_is_killed(backend: ProcessBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "HAND_BACK_S", 0.3)
    program(monkeypatch, STUBBORN.format(1000) + WAIT)
    backend.start(POOL, "t", 1)
    (status,) = await until(backend, lambda found: "here" in said(found[0]))
    backend.stop(status.name, 30.0)
    backend.stop(status.name, 0.1)  # the earlier end counts
    await until(backend, lambda found: found == [])


async def test_a_password_that_is_not_there_is_said_with_the_fix(tmp_path: Path) -> None:
    nowhere = ProcessBackend(Settings(nats_user="pools"))
    assert nowhere.missing(POOL) == "no account: NOETL_PASSWORDS is not set, and with it the password of worker_etl"
    file = tmp_path / "passwords.json"
    lacking = ProcessBackend(Settings(nats_user="pools", passwords=str(file)))
    wanted = f"no account: add the pool to the server configuration, and the password of worker_etl to {file}"
    assert lacking.missing(POOL) == wanted
    file.write_text("{half")
    assert lacking.missing(POOL) == wanted
    file.write_text('{"worker_etl": "x"}')
    assert lacking.missing(POOL) == ""
    assert ProcessBackend(Settings()).missing(POOL) == "", "a broker without users needs none"


def test_logs_are_followed_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "w.log"
    file.write_text("one\ntwo\nthree\n")
    place = _last("w", file, 2)
    with file.open("a") as out:
        out.write("four\nhal")
    place = _more("w", file, place)
    with file.open("a") as out:
        out.write("f\n")
    _more("w", file, place)
    assert capsys.readouterr().out.splitlines() == ["w | two", "w | three", "w | four", "w | half"]
    assert _last("w", file, 0) == file.stat().st_size
