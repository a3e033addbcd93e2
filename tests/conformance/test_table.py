"""docs/conformance.md: the tests it names exist, and no clause that it calls done is without one."""

import ast
import re
from functools import cache

import pytest
from msgspec import Struct

from tests.conformance.stand.fragments import CANONICAL, FORMAL
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "conformance.md"
HEADINGS = {"clause": 5, "question": 4, "example": 4}
WORDS = {"MUST", "MUST NOT", "SHOULD", "MAY", "states"}
DECISION = re.compile(r"yes|later \([a-z][a-z -]+\)|superseded by (.+)")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)(?:\[([\w. -]+)\])?`")


class Row(Struct, frozen=True):
    line: int
    clause: str
    decision: str
    tests: tuple[tuple[str, str, str], ...]  # file, function, case
    word: str = "states"


@cache
def rows() -> list[Row]:
    found: list[Row] = []
    width = 0
    for number, line in enumerate(PAGE.read_text(encoding="utf-8").splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells or cells[0] == "decision":
            width = 0
        elif cells[0] in HEADINGS:
            width = HEADINGS[cells[0]]
        elif width and not set(line) <= set("|-"):
            assert len(cells) == width, f"line {number} has {len(cells)} cells, not {width}"
            word = cells[1] if width == 5 else "states"
            found.append(Row(number, cells[0], cells[-2], tuple(TEST.findall(cells[-1])), word))
    return found


@cache
def functions(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def exists(file: str, name: str, case: str) -> bool:
    """A case is the id of a parameter: written in a file of the test's folder or below, or the name of one below it."""
    path = ROOT / file
    if not path.is_file() or name not in functions(file):
        return False
    written = any(f'"{case}"' in each.read_text(encoding="utf-8") for each in path.parent.rglob("*.py"))
    return not case or written or any(path.parent.glob(f"*/{case}.yaml"))


def test_every_test_it_names_exists() -> None:
    named = [(row.line, *test) for row in rows() for test in row.tests]
    assert [one for one in named if not exists(*one[1:])] == []


def test_every_fragment_that_runs_is_on_the_page() -> None:
    named = {case for row in rows() for _, _, case in row.tests}
    assert {*CANONICAL, *FORMAL} - named == set()


def test_every_clause_that_is_done_names_a_test() -> None:
    assert [(row.line, row.clause) for row in rows() if row.decision == "yes" and not row.tests] == []


def test_every_row_has_a_known_word_and_decision() -> None:
    wrong = [
        f"line {row.line}: {row.word} / {row.decision}"
        for row in rows()
        if row.word not in WORDS or not DECISION.fullmatch(row.decision)
    ]
    assert wrong == []


def test_what_supersedes_a_clause_is_on_the_page() -> None:
    known = {row.clause for row in rows()}
    for row in rows():
        match = DECISION.fullmatch(row.decision)
        if match is not None and match[1]:
            assert match[1].removeprefix("decision ") in known, f"line {row.line}: {match[1]}"


@pytest.mark.parametrize(("document", "clauses"), [("V10", 9), ("DSL2", 5), ("FX", 20), ("PIPE", 3), ("FS", 30)])
def test_every_document_is_there_with_its_key_words(document: str, clauses: int) -> None:
    """A clause that is dropped from the page is seen: the number of key words only grows."""
    counted = [row for row in rows() if row.clause.split()[0] == document and row.word != "states"]
    assert len(counted) >= clauses
