"""The command line of doctor and admin: help with an example, and nothing is removed without being told so."""

from pathlib import Path

import pytest

from services.cli.commands import admin
from services.cli.console import exits
from tests.support.cli import noetlctl

PLACE = {"NOETL_NATS_URL": "nats://127.0.0.1:1"}


@pytest.mark.parametrize("command", [("doctor",), ("admin",), *(("admin", name) for name in admin.COMMANDS)])
def test_help_has_an_example(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl(*command, "--help") == exits.OK
    assert f"Example: noetlctl {command[0]}" in " ".join(capsys.readouterr().out.split())


def test_admin_lists_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl("admin", "--help") == exits.OK
    shown = capsys.readouterr().out
    assert [name for name in admin.COMMANDS if f"  {name} " not in shown] == []
    assert noetlctl("admin", "nosuch") == exits.USAGE


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("rebuild-projection",), "--yes"),
        (("purge", "--older", "30d"), "--yes"),
        (("purge", "--older", "30d"), "--dry-run"),
        (("purge", "--older", "soon", "--yes"), "30d"),
        (("purge", "--older", "0d", "--yes"), "30d"),
        (("purge", "--older", "30d", "--status", "running", "--yes"), "completed, failed, cancelled"),
        (("restore", ".", "--folder", "x", "--context", "y"), "exclude each other"),
    ],
)
def test_what_removes_something_wants_to_be_told_so(
    args: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {**PLACE, "NOETL_POSTGRES_DSN": "postgresql://127.0.0.1:1/x"}.items():
        monkeypatch.setenv(name, value)
    assert noetlctl("admin", *args) == exits.USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("args", [("rebuild-projection", "--yes"), ("purge", "--older", "1d", "--yes")])
def test_without_a_read_model_the_error_names_the_setting(
    args: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NOETL_POSTGRES_DSN", raising=False)
    monkeypatch.setenv("NOETL_NATS_URL", PLACE["NOETL_NATS_URL"])
    assert noetlctl("admin", *args) == exits.ERROR
    assert "NOETL_POSTGRES_DSN" in capsys.readouterr().err


def test_a_folder_that_is_no_backup_is_exit_code_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl("admin", "restore", str(tmp_path), "--check") == exits.INVALID
    assert "is not a backup" in capsys.readouterr().err
