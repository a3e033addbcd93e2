"""Broken playbooks, each with its expected diagnostics in leading comments:
`# expect: CODE line:column part of the fix`, one line per mistake, all found in one go."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from shared.dsl.compile import compile_playbook
from tests.unit.dsl.tool_kinds import KINDS

FOLDER = Path(__file__).parent / "broken"
FILES = sorted(FOLDER.glob("*.yaml"))
STRICT = ("directive", "formal_dialect", "loop_settings", "not_supported", "rules", "today_strict")  # else taken
EXPECT = re.compile(r"# expect: (DSL\d+) (\d+):(\d+) (.+)")


class Expected(NamedTuple):
    line: int
    column: int
    code: str
    fix: str


def expectations(text: str) -> list[Expected]:
    found = [EXPECT.fullmatch(line) for line in text.splitlines() if line.startswith("# expect:")]
    assert all(found)
    return [Expected(int(m[2]), int(m[3]), m[1], m[4]) for m in found if m]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_broken_playbook_tells_every_mistake_with_its_place_and_fix(file: Path) -> None:
    source = file.read_bytes()
    expected = expectations(source.decode())
    compiled = compile_playbook(source, kinds=KINDS, file=file.name, strict=file.stem in STRICT)

    found = [(each.line, each.column, each.code) for each in compiled.diagnostics]
    assert found == [(each.line, each.column, each.code) for each in expected]
    for diagnostic, each in zip(compiled.diagnostics, expected, strict=True):
        assert each.fix in diagnostic.fix
        assert diagnostic.file == file.name


@pytest.mark.parametrize("file", [file for file in FILES if file.stem != "warnings"], ids=lambda f: f.stem)
def test_an_error_leaves_no_plan(file: Path) -> None:
    assert compile_playbook(file.read_bytes(), kinds=KINDS, strict=file.stem in STRICT).plan is None


def test_warnings_leave_the_plan() -> None:
    compiled = compile_playbook((FOLDER / "warnings.yaml").read_bytes(), kinds=KINDS)
    assert compiled.plan is not None
    assert {each.severity for each in compiled.diagnostics} == {"warning"}
