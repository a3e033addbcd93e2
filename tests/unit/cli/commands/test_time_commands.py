"""noetlctl schedule and trigger without a stack: help, usage, and what validate says of their documents."""

from pathlib import Path

import click
import pytest

from services.cli.commands import schedule, trigger
from services.cli.console import exits
from tests.support.cli import noetlctl

SCHEDULE = """\
apiVersion: noetl.io/v2
kind: Schedule
metadata: {name: nightly}
spec: {playbook: {path: a/b}, every: 1h30m}
"""
TRIGGER = """\
apiVersion: noetl.io/v2
kind: Trigger
metadata: {name: orders}
spec: {playbook: {path: a/b}, subject: orders.new}
"""


@pytest.mark.parametrize("args", [
    (group.name, name) for group in (schedule.command, trigger.command) for name in group.commands
])
def test_every_subcommand_shows_an_example(args: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl(*args, "--help") == exits.OK
    assert f"Example: noetlctl {' '.join(args)}" in " ".join(capsys.readouterr().out.split())


def test_the_groups_are_groups() -> None:
    assert isinstance(schedule.command, click.Group)
    assert set(schedule.command.commands) == {
        "apply", "backfill", "list", "describe", "next", "pause", "resume", "delete"}
    assert set(trigger.command.commands) == {"apply", "list", "describe", "delete"}


def test_validate_takes_schedules_and_triggers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two, three = (tmp_path / name for name in ("one.yaml", "two.yaml", "three.yaml"))
    one.write_text(SCHEDULE, encoding="utf-8")
    two.write_text(TRIGGER, encoding="utf-8")
    three.write_text(TRIGGER.replace("orders.new", "noetl.>"), encoding="utf-8")
    assert noetlctl("validate", str(one), str(two)) == exits.OK
    shown = capsys.readouterr().out
    assert "one.yaml: valid, schedule nightly, every 1h30m, path a/b" in shown
    assert "two.yaml: valid, trigger orders, orders.new (core messages), path a/b" in shown
    assert noetlctl("validate", str(three), str(one)) == exits.INVALID
    assert "three.yaml:4:40: error DSL204" in capsys.readouterr().err


def test_a_schedule_is_no_playbook(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(SCHEDULE, encoding="utf-8")
    assert noetlctl("graph", str(file)) == exits.INVALID
    assert "x.yaml is a schedule: noetlctl schedule apply -f" in capsys.readouterr().err


def test_next_wants_a_name_or_a_file() -> None:
    assert noetlctl("schedule", "next") == exits.USAGE
    assert noetlctl("schedule", "next", "nightly", "-f", "x.yaml") == exits.USAGE


def test_a_file_of_the_other_kind_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(TRIGGER, encoding="utf-8")
    assert noetlctl("schedule", "apply", "-f", str(file)) == exits.INVALID
    assert "x.yaml is a trigger: noetlctl trigger apply -f" in capsys.readouterr().err
