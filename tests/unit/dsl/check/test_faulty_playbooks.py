"""Playbooks that compile and would still go wrong. Each begins with what is to be told:
`# expect: CODE line:column message => fix`."""

import re
from pathlib import Path

import pytest

from shared.dsl.compile import compile_playbook
from shared.dsl.model.diagnostic_codes import CODES
from shared.tools import registry
from tests.support.examples import PLAYBOOKS
from tests.unit.dsl.tool_kinds import KINDS

FOLDER = Path(__file__).parent / "faulty"
FILES = sorted(FOLDER.glob("*.yaml"))
EXPECT = re.compile(r"# expect: (DSL\d+) (\d+):(\d+) (.+) => (.+)")
ERRORS = {"DSL505", "DSL604", "DSL605"}


def expected(text: str) -> list[tuple[int, int, str, str, str]]:
    lines = [line for line in text.splitlines() if line.startswith("# expect:")]
    found = [EXPECT.fullmatch(line) for line in lines]
    assert lines
    assert all(found)
    return [(int(m[2]), int(m[3]), m[1], m[4], m[5]) for m in found if m]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_faulty_playbook_tells_code_place_message_and_fix(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    compiled = compile_playbook(source, kinds=KINDS)
    found = [(each.line, each.column, each.code, each.message, each.fix) for each in compiled.diagnostics]
    assert found == expected(source)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_only_what_cannot_work_is_an_error(file: Path) -> None:
    compiled = compile_playbook(file.read_bytes(), kinds=KINDS)
    for each in compiled.diagnostics:
        assert each.severity == ("error" if each.code in ERRORS else "warning")
    assert (compiled.plan is None) == any(each.code in ERRORS for each in compiled.diagnostics)


def test_every_check_has_a_faulty_playbook() -> None:
    shown = {code for file in FILES for _, _, code, _, _ in expected(file.read_text(encoding="utf-8"))}
    # tests/unit/dsl/broken, `codes` for tests and `--strict`, and `authoring` for `migrate`
    elsewhere = {"DSL903", "DSL920", "DSL930", "DSL932"}
    warnings = {code for code in CODES if code.startswith("DSL9")} - elsewhere
    assert shown >= warnings | ERRORS
    assert len(FILES) >= 30


@pytest.mark.parametrize("file", PLAYBOOKS, ids=lambda file: file.stem)
def test_example_has_nothing_to_tell(file: Path) -> None:
    compiled = compile_playbook(file.read_bytes(), kinds=registry.specs())
    assert compiled.diagnostics == ()
