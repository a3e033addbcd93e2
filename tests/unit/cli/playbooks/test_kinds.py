"""A file that another command takes is told with that command."""

from pathlib import Path

import pytest

from services.cli.console import exits
from services.cli.playbooks.kinds import TAKEN_BY
from tests.support.cli import noetlctl


@pytest.mark.parametrize(("line", "kind"), [
    *((line, kind) for line in ("run {}", "register {}", "graph {}") for kind in TAKEN_BY),
    ("schedule apply -f {}", "Trigger"), ("trigger apply -f {}", "Schedule"), ("trigger apply -f {}", "Test"),
    ("pool apply -f {}", "Schedule"), ("schedule next -f {}", "Pool"),
])
def test_the_command_that_takes_it_is_named(
    line: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"apiVersion: noetl.io/v2\nkind: {kind}\nmetadata: {{name: a}}\n")
    assert noetlctl(*line.format(file).split()) == exits.INVALID
    said = capsys.readouterr().err
    assert said == f"noetlctl: {file} is a {kind.lower()}: {TAKEN_BY[kind].format(file=file)}\n"
