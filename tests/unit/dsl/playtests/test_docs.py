"""docs/testing.md says what the code does: its example passes, and its keys and limits are the real ones."""

import re
from pathlib import Path

import pytest

from services.cli.commands.test import MAX_SEEDS
from services.cli.testing import real_tools, suites
from services.cli.testing.faults import FAULTS
from services.cli.testing.real_tools import RealTools
from services.cli.testing.runner import Options, run_files
from shared.answers.rehearsal.setting import Limits
from shared.dsl.playtests import model as playtest
from shared.tools.testing.case_run import MAX_EVENTS
from tests.support import paths

DOCS = (paths.DOCS / "testing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", DOCS, re.DOTALL)


def test_the_example_of_the_page_passes_also_under_faults(tmp_path: Path) -> None:
    test, book = BLOCKS
    (tmp_path / "orders.test.yaml").write_text(test, encoding="utf-8")
    (tmp_path / "orders.yaml").write_text(book, encoding="utf-8")
    suite = suites.Library().test(tmp_path / "orders.test.yaml")
    assert suite.compiled.diagnostics == ()
    with RealTools() as tools:
        (report,) = run_files([suite], Options(faults=FAULTS), tools.call, {})
    assert [(case.name, case.failures) for case in report.cases if not case.passed] == []
    assert report.warnings == []


@pytest.mark.parametrize(("title", "keys"), [
    ("key of the file", set(playtest.ROOT_KEYS) - {"apiVersion", "kind"}),
    ("key of a case", set(playtest.CASE_KEYS)),
    ("key of a mock", set(playtest.MOCK_KEYS)),
    ("key of `expect`", set(playtest.EXPECT_KEYS)),
])
def test_every_key_is_in_the_tables(title: str, keys: set[str]) -> None:
    tables = [part.split("\n\n")[0] for part in DOCS.split(f"| {title} |")[1:]]
    first = [line.split("|")[1] for table in tables for line in table.splitlines()[2:]]
    assert {key for cell in first for key in re.findall(r"`(\w+)`", cell)} == keys


@pytest.mark.parametrize(("what", "value"), [
    ("cases of a file, mocks of a case or of the file, signals of a case", f"{playtest.MAX_CASES:,} each"),
    ("files under `with`", str(playtest.MAX_WITH)),
    ("events in the log of one execution", f"{MAX_EVENTS:,}"),
    ("virtual time", f"{Limits().seconds / 86_400:.0f} days"),
    ("seeds", f"{MAX_SEEDS:,}"),
    ("test files of one command", f"{suites.MAX_FILES:,}"),
    ("a call that is run for real", f"{real_tools.TIMEOUT_S:.0f} s"),
])
def test_the_limits_are_the_real_ones(what: str, value: str) -> None:
    assert f"| {what} | {value} |" in DOCS
    assert playtest.MAX_CASES == playtest.MAX_MOCKS == playtest.MAX_SIGNALS


def test_the_faults_are_those_the_command_offers() -> None:
    assert all(f"| `{fault}` |" in DOCS for fault in FAULTS)
