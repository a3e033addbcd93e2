"""The entry point: every command is there, and an error is one line with its exit code."""

import sys
from importlib.abc import MetaPathFinder

import click
import pytest

from services.cli import __main__, main
from services.cli.console import exits
from services.cli.console.exits import CliError
from shared.errors import Unavailable
from tests.support.cli import noetlctl


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_of_the_table_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl(name, "--help") == exits.OK
    assert main.COMMANDS[name].rstrip(".") in " ".join(capsys.readouterr().out.split())


def test_an_interrupt_while_modules_are_loaded_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted(MetaPathFinder):
        def find_spec(self, fullname: str, _path: object, _target: object = None) -> None:
            if fullname == "services.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "services.cli.main")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        __main__.main()
    assert (ended.value.code, capsys.readouterr().err) == (exits.INTERRUPTED, "noetlctl: interrupted\n")
    assert __main__.INTERRUPTED == exits.INTERRUPTED


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl("--help") == exits.OK
    shown = capsys.readouterr().out
    assert [name for name in main.COMMANDS if f"  {name} " not in shown] == []


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl("nosuch") == exits.USAGE
    assert "nosuch" in capsys.readouterr().err


@pytest.mark.parametrize(("typed", "meant"), [
    (["exeucte"], "execute"), (["regsiter", "x.yaml"], "register"), (["pool", "lst"], "list"),
    (["credential", "rotat"], "rotate"), (["explain", "worklod"], "workload"), (["explain", "http.ulr"], "url"),
    (["explain", "step.spec.polcy"], "policy"),
])
def test_what_is_mistyped_is_told_with_what_was_meant(
    typed: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert noetlctl(*typed) == exits.USAGE
    said = capsys.readouterr().err.lower()
    assert "did you mean" in said
    assert meant in said.partition("did you mean")[2]


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (CliError("do this", exits.INVALID), exits.INVALID, "noetlctl: do this\n"),
        (Unavailable("no answer"), exits.ERROR, "noetlctl: no answer\n"),
        (KeyboardInterrupt(), exits.INTERRUPTED, "noetlctl: interrupted\n"),
        (
            TypeError("x"),
            exits.ERROR,
            "noetlctl: internal error: TypeError('x') (NOETL_LOG_LEVEL=debug shows where)\n",
        ),
    ],
)
def test_an_error_is_one_line_and_its_exit_code(
    error: BaseException,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    @click.command()
    def broken() -> None:
        raise error

    monkeypatch.delenv("NOETL_LOG_LEVEL", raising=False)
    monkeypatch.setattr(main.Commands, "get_command", lambda *_: broken)
    assert noetlctl("run") == code
    assert capsys.readouterr().err.lstrip() == line
