"""Workers as children: started again, ended politely, then by a second word, then for certain."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from services.cli.pools.logs import print_last, print_more
from services.pools import process
from services.pools.process import ProcessBackend
from shared.dsl.documents.pools import Pool
from shared.runtime.service.clock import SystemClock
from shared.runtime.service.settings import Settings
from shared.runtime.service.targets import WORKERS
from shared.runtime.stores.pools import WorkerStatus
from tests.support.waiting import until

CLOCK = SystemClock()
POOL = Pool("etl", slots=3, provides=("eu", "gpu"), tools_disabled=("shell",), drain_s=30.0)
QUIET = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
STUBBORN = """import signal, sys, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1) if len(asked) < {} else sys.exit(3))
"""
ENDED: list[tuple[str, str]] = []  # the workers whose end was told
WAIT = "print('here', flush=True)\nwhile True: time.sleep(0.05)\n"


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[ProcessBackend]:
    (tmp_path / "passwords.json").write_text('{"worker_etl": "secret"}')
    settings = Settings(nats_user="pools", passwords=str(tmp_path / "passwords.json"), logs=str(tmp_path))
    found = ProcessBackend(settings, CLOCK, lambda pool, worker: ENDED.append((pool, worker)))
    ENDED.clear()
    yield found
    await found.close(0.0)


def program(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-c", code))


async def seen(
    backend: ProcessBackend, what: str, so: Callable[[list[WorkerStatus]], bool]
) -> list[WorkerStatus]:
    return await until(lambda: [each.status for each in backend.workers("etl")], what, 20.0, so=so, every_s=0.05)


def said(status: WorkerStatus) -> str:
    return Path(status.log).read_text() if Path(status.log).exists() else ""


async def test_a_worker_gets_its_own_settings_and_no_other_password(
    backend: ProcessBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = (
        "import os, socket\n"
        "print(sorted((k, v) for k, v in os.environ.items() if k.startswith('NOETL_')), flush=True)\n"
        "print(socket.socket(fileno=int(os.environ['NOETL_SECRETS_FD'])).recv(9999).decode(), flush=True)\n"
    )
    program(monkeypatch, QUIET + shown + WAIT)
    backend.start(POOL, "t", 1)
    (status,) = await seen(backend, "it is here", lambda found: bool(found) and "here" in said(found[0]))
    text = said(status)
    for name, value in (
        ("NATS_USER", "worker_etl"), ("POOL", "etl"), ("SLOTS", "3"), ("PASSWORDS", ""),
        ("PROVIDES", "eu,gpu"), ("TOOLS_DISABLED", "shell"), ("DRAIN_S", "30.0"), ("INSTANCE", status.name),
    ):
        assert f"('NOETL_{name}', '{value}')" in text
    assert '{"nats_password":"secret"}' in text
    assert text.count("secret") == 1, "it is handed over, not in the environment"
    assert status.name.startswith("etl-1-")


async def test_one_that_dies_is_started_again_and_its_failures_count(
    backend: ProcessBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(monkeypatch, "import sys; sys.exit(1)")
    backend.start(POOL, "t", 1)
    (status,) = await seen(backend, "two failures", lambda found: found[0].failures >= 2)
    assert status.ended == "exit code 1"
    (running,) = backend.workers("etl")
    assert len(running.crashes) >= 2
    assert (running.crashes[0].worker, running.crashes[0].ended) == (status.name, "exit code 1")
    assert ENDED[:2] == [("etl", status.name)] * 2


async def test_numbers_are_given_again_when_their_worker_is_gone(
    backend: ProcessBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(monkeypatch, QUIET + WAIT)
    backend.start(POOL, "t", 3)
    started = await seen(backend, "all are here", lambda found: all("here" in said(each) for each in found))
    names = [status.name for status in started]
    backend.stop(names[1], 10.0)
    await seen(backend, "two are left", lambda found: len(found) == 2)
    backend.start(POOL, "t", 1)
    assert sorted(each.status.name for each in backend.workers("etl")) == names


async def test_one_that_does_not_finish_in_time_is_asked_again_and_hands_back(
    backend: ProcessBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(monkeypatch, STUBBORN.format(1) + WAIT)
    backend.start(POOL, "t", 1)
    (status,) = await seen(backend, "it is here", lambda found: "here" in said(found[0]))
    backend.stop(status.name, 0.5)
    await seen(backend, "it is gone", lambda found: found == [])


async def test_one_that_never_listens_is_killed(backend: ProcessBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "HAND_BACK_S", 0.3)
    program(monkeypatch, STUBBORN.format(1000) + WAIT)
    backend.start(POOL, "t", 1)
    (status,) = await seen(backend, "it is here", lambda found: "here" in said(found[0]))
    backend.stop(status.name, 30.0)
    backend.stop(status.name, 0.1)  # the earlier end counts
    await seen(backend, "it is gone", lambda found: found == [])


async def test_a_frozen_one_is_killed_and_counts_as_ended_by_itself(
    backend: ProcessBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(monkeypatch, QUIET + WAIT)
    backend.start(POOL, "t", 1)
    (first,) = await seen(backend, "it is here", lambda found: "here" in said(found[0]))
    os.kill(first.pid, signal.SIGSTOP)
    backend.kill(first.name, "silent for 31 s")
    (second,) = await seen(backend, "another process", lambda found: found[0].pid not in (0, first.pid))
    assert (second.name, second.ended) == (first.name, "exit code -9, killed: silent for 31 s")
    (running,) = backend.workers("etl")
    assert [crash.ended for crash in running.crashes] == [second.ended]


async def test_a_password_that_is_not_there_is_said_with_the_fix(tmp_path: Path) -> None:
    nowhere = ProcessBackend(Settings(nats_user="pools"), CLOCK, lambda *_: None)
    assert nowhere.missing(POOL) == "no account: NOETL_PASSWORDS is not set, and with it the password of worker_etl"
    file = tmp_path / "passwords.json"
    lacking = ProcessBackend(Settings(nats_user="pools", passwords=str(file)), CLOCK, lambda *_: None)
    wanted = f"no account: add the pool to the server configuration, and the password of worker_etl to {file}"
    assert lacking.missing(POOL) == wanted
    file.write_text("{half")
    assert lacking.missing(POOL) == wanted
    file.write_text('{"worker_etl": "x"}')
    assert lacking.missing(POOL) == ""
    assert ProcessBackend(Settings(), CLOCK, lambda *_: None).missing(POOL) == "", "a broker without users needs none"


def test_logs_are_followed_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "w.log"
    file.write_text("one\ntwo\nthree\n")
    place = print_last("w", file, 2)
    with file.open("a") as out:
        out.write("four\nhal")
    place = print_more("w", file, place)
    with file.open("a") as out:
        out.write("f\n")
    print_more("w", file, place)
    assert capsys.readouterr().out.splitlines() == ["w | two", "w | three", "w | four", "w | half"]
    assert print_last("w", file, 0) == file.stat().st_size


async def test_a_worker_of_a_broker_with_keys_has_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = "import os\nprint(os.environ['NOETL_NATS_NKEY_FILE'], os.environ['NOETL_ROLE'])\n"
    program(monkeypatch, shown + QUIET + WAIT)
    settings = Settings(nats_nkey_file="/run/pools.nk", passwords=str(tmp_path), logs=str(tmp_path), role="pools")
    backend = ProcessBackend(settings, CLOCK, lambda _pool, _worker: None)
    assert f"worker_etl.nk is not in {tmp_path}" in backend.missing(POOL)
    (tmp_path / "worker_etl.nk").write_text("its seed")
    assert backend.missing(POOL) == ""
    backend.start(POOL, "t", 1)
    (worker,) = await seen(backend, "it is there", lambda found: "here" in said(found[0]))
    assert said(worker).splitlines()[0] == f"{tmp_path}/worker_etl.nk worker"
    await backend.close(0.0)


async def test_workers_answer_where_a_prometheus_is_told_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = "import os\nprint(os.environ['NOETL_HEALTH_PORT'], os.environ['NOETL_TARGETS'] == '', flush=True)\n"
    program(monkeypatch, QUIET + shown + WAIT)
    folder = tmp_path / "targets"
    settings = Settings(logs=str(tmp_path), targets=str(folder))
    found = ProcessBackend(settings, CLOCK, lambda *_: None)
    found.start(POOL, "t", 2)
    [first, second] = await seen(found, "both are there", lambda all_: all("here" in said(each) for each in all_))
    told = {each["labels"]["instance"]: each["targets"][0] for each in json.loads((folder / WORKERS).read_text())}
    assert told.keys() == {first.name, second.name}
    for each in (first, second):
        port = told[each.name].removeprefix("127.0.0.1:")
        assert said(each).startswith(f"{port} True")
    await found.close(5.0)
    assert json.loads((folder / WORKERS).read_text()) == []
