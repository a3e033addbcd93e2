"""noetlctl replay and debug without a stack: help and usage."""

from pathlib import Path

import pytest

from services.cli.console import exits
from tests.support.cli import noetlctl


@pytest.mark.parametrize("name", ["replay", "debug"])
def test_every_command_shows_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl(name, "--help") == exits.OK
    assert f"Examples: noetlctl {name} " in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("args", [(), ("e1", "--playbook", "a/b"), ("--playbook", "a/b", "--last", "0")])
def test_replay_wants_an_execution_or_a_playbook(args: tuple[str, ...]) -> None:
    assert noetlctl("replay", *args) == exits.USAGE


def test_replay_says_what_is_wrong_with_the_file_before_it_asks_for_a_stack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text("kind: Playbook\n", encoding="utf-8")
    assert noetlctl("replay", "e1", "--against", str(file)) == exits.INVALID
    assert "broken.yaml is not valid" in capsys.readouterr().err
    assert noetlctl("replay", "e1", "--against", str(tmp_path / "nosuch.yaml")) == exits.USAGE
