"""The PostgreSQL of noetlctl up dies: it is started again, and the read model misses nothing."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cli import Cli, Up
from tests.support.examples import HELLO
from tests.support.processes import children, gone, running
from tests.support.waiting import wait_until

WITHIN_S = 60.0


@pytest.fixture
def listed(up: Up, cli: Cli) -> Callable[[str], bool]:
    """Whether the read model has the end of an execution; `get` never says more than one line of what is wrong."""

    def look(execution: str) -> bool:
        done = cli("get", "-o", "json", cwd=up.folder)
        if done.returncode:
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
            assert done.stderr.startswith("noetlctl: no answer from PostgreSQL: ")
            return False
        return (execution, "completed") in {(row["execution_id"], row["status"]) for row in json.loads(done.stdout)}

    return look


@pytest.fixture
def frozen() -> Iterator[list[int]]:
    pids: list[int] = []
    yield pids
    for pid in filter(running, pids):
        os.kill(pid, signal.SIGKILL)


def test_a_killed_postgresql_is_started_again_and_what_ran_meanwhile_is_projected(
    up: Up, cli: Cli, listed: Callable[[str], bool]
) -> None:
    assert cli("register", HELLO, cwd=up.folder).returncode == 0
    (pid,) = up.servers()
    os.kill(pid, signal.SIGKILL)
    done = cli("execute", "examples/hello", "--wait", "-o", "json", cwd=up.folder)
    assert done.returncode == 0, done.stderr
    wait_until(lambda: listed(json.loads(done.stdout)["execution_id"]), "it is in the read model", WITHIN_S,
               instead=up.log.read_text)
    assert pid not in up.servers()
    assert f"PostgreSQL ended (process {pid})" in up.log.read_text()
    assert cli("doctor", cwd=up.folder).returncode == 0


def test_a_postgresql_that_is_told_to_end_is_started_again(up: Up, cli: Cli) -> None:
    """It waits for its clients then, and the projector is one that stays."""
    (pid,) = up.servers()
    os.kill(pid, signal.SIGTERM)
    wait_until(up.servers, "another one runs", WITHIN_S, so=lambda now: bool(now) and now != [pid],
               instead=up.log.read_text)
    wait_until(lambda: cli("get", cwd=up.folder).returncode, "it answers", WITHIN_S, so=lambda code: code == 0)


def test_a_postgresql_that_cannot_start_is_said_with_its_own_words_and_the_engine_goes_on(
    up: Up, cli: Cli, listed: Callable[[str], bool], frozen: list[int]
) -> None:
    assert cli("register", HELLO, cwd=up.folder).returncode == 0
    (pid,) = up.servers()
    frozen.append(next(child for child, line in children(pid).items() if "checkpointer" in line))
    os.kill(frozen[0], signal.SIGSTOP)  # holds the memory of the server that is gone: no other may start
    os.kill(pid, signal.SIGKILL)
    wait_until(up.log.read_text, "it is said that no other may start", WITHIN_S,
               so=lambda log: log.count("shared memory block") > 2)
    done = cli("execute", "examples/hello", "--wait", "-o", "json", cwd=up.folder)
    assert done.returncode == 0, done.stderr
    told = cli("doctor", cwd=up.folder)
    assert told.returncode != 0
    assert str(up.folder / ".noetl" / "postgres" / "log") in told.stdout
    assert "NOETL_POSTGRES_DSN" not in told.stdout
    os.kill(frozen[0], signal.SIGKILL)
    wait_until(lambda: listed(json.loads(done.stdout)["execution_id"]), "it is in the read model", WITHIN_S,
               instead=up.log.read_text)


def test_a_postgresql_taken_over_from_a_killed_stack_is_started_again_too(tmp_path: Path) -> None:
    first, second = Up(tmp_path), None
    try:
        first.wait()
        (pid,) = first.servers()
        os.killpg(first.process.pid, signal.SIGKILL)
        first.stop()
        first.context_file.unlink()
        second = Up(tmp_path)
        second.wait()
        assert second.servers() == [pid]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: set(second.servers()) - {pid}, "another server", WITHIN_S, instead=second.log.read_text)
        assert second.stop() == 0
        assert second.servers() == []
    finally:
        first.stop()
        if second is not None:
            second.stop()
        assert gone(pid)
