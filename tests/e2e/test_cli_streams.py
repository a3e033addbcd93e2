"""What noetlctl says where while the broker is away: stdout is for data."""

import os
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from services.cli.console import exits
from shared.runtime.embedded import nats_server
from tests.support.cli import COMMAND, LIMIT_S, Cli, environment, noetlctl


@pytest.fixture
def nobody() -> str:
    """An address at which nobody answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"nats://127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize("command", [["why", "abc"], ["execute", "some/path", "-o", "json"]])
def test_stdout_is_empty_and_stderr_one_line_while_nobody_answers(cli: Cli, nobody, command) -> None:
    said = cli(*command, NOETL_NATS_URL=nobody)
    assert (said.returncode, said.stdout) == (1, "")
    assert len(said.stderr.splitlines()) == 1
    assert said.stderr.startswith("noetlctl: no answer from ")


def test_what_the_connection_says_is_shown_on_stderr_when_asked_for(cli: Cli, nobody) -> None:
    said = cli("why", "abc", NOETL_NATS_URL=nobody, NOETL_LOG_LEVEL="debug")
    assert (said.returncode, said.stdout) == (1, "")
    assert "bus.error" in said.stderr


def test_nobody_who_answers_is_told_within_three_seconds(nobody, monkeypatch, capsys) -> None:
    """In this process: what starting one takes is not the command's."""
    monkeypatch.setenv("NOETL_NATS_URL", nobody)
    began = time.monotonic()
    assert noetlctl("get", "playbooks", "-o", "json") == exits.ERROR
    assert time.monotonic() - began < 3.0
    said = capsys.readouterr()
    assert (said.out, len(said.err.splitlines())) == ("", 1)


def test_with_wait_the_broker_is_waited_for_as_long_as_the_timeout_allows(nobody, monkeypatch, capsys) -> None:
    monkeypatch.setenv("NOETL_NATS_URL", nobody)
    assert noetlctl("execute", "some/path", "--wait", "--timeout", "3") == exits.TIMED_OUT
    said = capsys.readouterr()
    first, last = said.err.splitlines()
    assert (said.out, first.endswith("; waiting for it")) == ("", True)
    assert "within 3 s" in last


def test_with_wait_a_broker_that_comes_is_told_and_used(nobody, monkeypatch, capsys) -> None:
    """It has no stream of ours: that the command gets so far as to say so is what is looked at."""
    monkeypatch.setenv("NOETL_NATS_URL", nobody)
    port = nobody.rpartition(":")[2]
    with ThreadPoolExecutor(1) as other:
        server = other.submit(_later, port)
        code = noetlctl("watch", "abc", "--timeout", "60")
        process = server.result()
    process.terminate()
    process.wait(30)
    said = capsys.readouterr()
    assert code == exits.ERROR, said.err
    lines = said.err.splitlines()
    assert lines[0].endswith("; waiting for it")
    assert lines[1] == f"noetlctl: {nobody} answers"


def _later(port: str) -> subprocess.Popen[bytes]:
    time.sleep(4.0)
    command = [nats_server.find_binary(), "-a", "127.0.0.1", "-p", port]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("command", [["explain"], ["schema"]])
def test_a_reader_that_leaves_early_is_no_error(command) -> None:
    """As `| head -1` does, whatever the size of a pipe: it is closed before anything is written."""
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        done = subprocess.run([*COMMAND, *command], stdout=theirs, stderr=subprocess.PIPE, env=environment(),
                              timeout=LIMIT_S, check=False)
    finally:
        os.close(theirs)
    assert (done.returncode, done.stderr) == (0, b"")
