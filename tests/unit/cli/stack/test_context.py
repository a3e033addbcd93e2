"""Which stack a command talks to."""

import stat
from pathlib import Path

import pytest

from services.cli.console.exits import CliError
from services.cli.stack import context
from services.cli.stack.context import Context

NOWHERE = {"NOETL_CONFIG": "/nonexistent/config.json"}


def stored(folder: Path, url: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return context.write(folder, Context(url, {"admin": "pw"}, partitions=8, pools=("a", "b")))


def test_the_file_is_private_and_gives_the_settings_back(tmp_path: Path) -> None:
    file = stored(tmp_path, "nats://one")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    settings = context.find(file, {})
    assert (settings.nats_url, settings.nats_user, settings.nats_password) == ("nats://one", "admin", "pw")
    assert (settings.partitions, settings.pools) == (8, ("a", "b"))


def test_flag_then_environment_then_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stored(tmp_path / ".noetl", "nats://folder")
    flag, named = stored(tmp_path / "f", "nats://flag"), stored(tmp_path / "n", "nats://named")
    environ = {"NOETL_CONTEXT": str(named), "NOETL_NATS_URL": "nats://url"}
    assert context.find(flag, environ).nats_url == "nats://flag"
    assert context.find(None, environ).nats_url == "nats://named"
    assert context.find(None, {"NOETL_NATS_URL": "nats://url"}).nats_url == "nats://url"
    (tmp_path / "url").write_text("nats://written\n")
    assert context.find(None, {"NOETL_NATS_URL_FILE": str(tmp_path / "url")}).nats_url == "nats://written"
    assert context.find(None, NOWHERE).nats_url == "nats://folder"


def test_no_stack_is_an_error_with_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CliError, match="noetlctl up"):
        context.find(None, NOWHERE)


@pytest.mark.parametrize("content", [None, "{", '{"nats_url": 1}'])
def test_a_file_that_cannot_be_used_is_an_error_with_the_fix(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "context.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(CliError, match="noetlctl up"):
        context.find(file, {})
