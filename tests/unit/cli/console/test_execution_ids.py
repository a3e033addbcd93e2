"""What cannot be the id of an execution is told as such by every command that takes one, before anyone is asked: in a
subject `*` is everything."""

import pytest

from services.cli.console import exits
from services.cli.stack import context
from tests.support.cli import noetlctl

ONE = ("describe", "why", "watch", "logs", "result", "ctx", "debug", "events", "verify", "trace", "replay", "get")
MANY = ("cancel", "pause", "resume", "retry-failed")
TAKING = [
    *((each, "{}") for each in ONE), *((each, "{}") for each in MANY), ("cancel", "good", "{}"),
    ("rerun", "{}", "--failed"), ("signal", "{}", "go"), ("diff", "{}", "good"), ("diff", "good", "{}"),
    ("get", "execution", "{}"), ("get", "executions", "{}"),
]
IMPOSSIBLE = ["*", ">", "a.b", "a b", "\x1b[31m", "é", "x" * 65, "$JS.API"]


@pytest.fixture(autouse=True)
def _nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """`get` looks where its stack is before it knows what it is asked for."""
    monkeypatch.setattr(context, "connected", None)
    monkeypatch.setenv("NOETL_NATS_URL", "nats://127.0.0.1:1")


def typed(line: tuple[str, ...], name: str) -> int:
    return noetlctl(*(part.format(name) for part in line))


@pytest.mark.parametrize("line", TAKING, ids=" ".join)
def test_what_cannot_be_an_id_is_not_found(line: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    for name in IMPOSSIBLE:
        assert typed(line, name) == exits.NOT_FOUND, name
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("noetlctl: there is no execution "), name
        assert (said.err.count("\n"), said.err.isascii() or "é" in said.err or "…" in said.err) == (1, True)
        assert "\x1b" not in said.err


@pytest.mark.parametrize("line", TAKING, ids=" ".join)
@pytest.mark.parametrize("name", ["", "  "])
def test_an_empty_one_is_a_usage_error(
    line: tuple[str, ...], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(line, name) == exits.USAGE
    assert "the id of an execution is empty: is a variable not set?" in " ".join(capsys.readouterr().err.split())


def test_one_that_begins_with_a_dash_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log may hold such ids, from before they were refused."""
    asked: list[str] = []
    monkeypatch.setattr("services.cli.commands.describe._describe", lambda execution, *_: asked.append(execution))
    monkeypatch.setattr("services.cli.console.run_async.run", lambda _: exits.OK)
    assert noetlctl("describe", "--", "-x") == exits.OK
    assert asked == ["-x"]
