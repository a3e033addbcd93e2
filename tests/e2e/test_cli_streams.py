"""What noetlctl says where while the broker is away: stdout is for data."""

import socket

import pytest

from tests.support.cli import Cli


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
