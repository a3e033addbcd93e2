"""docs/conformance.md: nothing of the documents is left out, and what it says is proved is proved by what it names."""

import ast
import re
from collections import Counter
from functools import cache

import pytest
from msgspec import Struct

from tests.conformance.mutants.tables import EVERY, QUICK
from tests.conformance.stand.documents import SECTIONS, clause
from tests.conformance.stand.fragments import CANONICAL, FORMAL
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "conformance.md"
HEADINGS = {"clause": 5, "question": 4, "example": 4}
WORDS = {"MUST", "MUST NOT", "SHOULD", "MAY", "states"}
REASON = r"\((?P<reason>.{12,200})\)"  # said in so many words
DECISION = re.compile(
    rf"(?P<verdict>yes|later \([a-z][a-z -]+\)|partly {REASON}|no {REASON.replace('reason', 'instead')}|"
    r"superseded by (?P<by>.+))")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)(?:\[([\w. -]+)\])?`")
MUTANT = re.compile(r"`([^`]+)`")
CLAUSES = 185  # with a mutant, at least; of each document at least 5


class Row(Struct, frozen=True):
    line: int
    clause: str
    decision: str
    tests: tuple[str, ...]
    mutants: tuple[str, ...]
    word: str = "states"

    @property
    def verdict(self) -> str:
        return self.decision.split()[0]


@cache
def rows() -> list[Row]:
    found: list[Row] = []
    width = 0
    for number, line in enumerate(PAGE.read_text(encoding="utf-8").splitlines(), 1):
        cells = [cell.strip() for cell in line.strip()[1:-1].split("|")] if line.startswith("|") else []
        if not cells or cells[0] == "decision":
            width = 0
        elif cells[0] in HEADINGS:
            width = HEADINGS[cells[0]]
        elif width and not set(line) <= set("|-"):
            assert len(cells) == width, f"line {number} has {len(cells)} cells, not {width}"
            found.append(_row(number, cells))
    return found


def _row(number: int, cells: list[str]) -> Row:
    proofs, _, mutated = cells[-1].partition("; mutants: ")
    for part, shape in ((proofs, TEST), (mutated, MUTANT)):
        assert all(shape.fullmatch(each) for each in part.split(", ") if part), f"line {number}: {part}"
    tests = tuple(found[0].strip("`") for found in TEST.finditer(proofs))
    mutants = tuple(MUTANT.findall(mutated))
    word = cells[1] if len(cells) == HEADINGS["clause"] else "states"
    return Row(number, cells[0], cells[-2], tests, mutants, word)


@cache
def functions(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


@cache
def sources_below(file: str) -> str:
    return "".join(each.read_text(encoding="utf-8") for each in (ROOT / file).parent.rglob("*.py"))


def exists(test: str) -> bool:
    """A case is the id of a parameter: written in a file of the test's folder or below, or the name of one below it."""
    found = TEST.fullmatch(f"`{test}`")
    assert found is not None, test
    file, name, case = found.groups("")
    path = ROOT / file
    if not path.is_file() or name not in functions(file):
        return False
    return not case or f'"{case}"' in sources_below(file) or any(path.parent.glob(f"*/{case}.yaml"))


# -- what a row says --------------------------------------------------------------------------


def test_every_row_has_a_known_word_and_decision() -> None:
    wrong = [
        f"line {row.line}: {row.word} / {row.decision}"
        for row in rows()
        if row.word not in WORDS or not DECISION.fullmatch(row.decision)
    ]
    assert wrong == []


def test_every_test_it_names_exists() -> None:
    assert [(row.line, test) for row in rows() for test in row.tests if not exists(test)] == []


def test_no_row_names_a_test_or_a_mutant_twice() -> None:
    assert [row.line for row in rows() if max(Counter((*row.tests, *row.mutants)).values(), default=1) > 1] == []


def test_every_clause_that_is_done_names_a_test() -> None:
    """Also one that is done in part."""
    assert [(row.line, row.clause) for row in rows() if row.verdict in ("yes", "partly") and not row.tests] == []


def test_what_is_not_there_names_no_mutant() -> None:
    """There is nothing to take away; but that a playbook is refused can be."""
    assert [row.line for row in rows() if row.mutants and row.verdict == "no"] == []


def test_what_supersedes_a_clause_is_on_the_page() -> None:
    known = {row.clause for row in rows()}
    for row in rows():
        match = DECISION.fullmatch(row.decision)
        if match is not None and match["by"]:
            assert match["by"].removeprefix("decision ") in known, f"line {row.line}: {match['by']}"


# -- nothing is left out ----------------------------------------------------------------------


@cache
def sections() -> Counter[str]:
    """How many rows each section has, those of examples too: `FS §4, §4.1` is both."""
    found: Counter[str] = Counter()
    for row in rows():
        document = row.clause.split()[0].strip(",")
        found.update(f"{document} {each}" if each.startswith("§") else each for each in row.clause.split(", "))
    return found


@pytest.mark.parametrize("document", SECTIONS)
def test_every_section_of_a_document_has_a_row(document: str) -> None:
    assert [section for section in SECTIONS[document] if not sections()[clause(document, section)]] == []


@pytest.mark.parametrize("document", SECTIONS)
def test_every_key_word_of_a_document_has_a_row(document: str) -> None:
    said = Counter(row.clause for row in rows() if row.word != "states")
    missing = {
        section: count - said[clause(document, section)]
        for section, count in SECTIONS[document].items()
        if said[clause(document, section)] < count
    }
    assert missing == {}


def test_no_row_is_of_a_section_that_is_not_there() -> None:
    """But for decisions, which have names of their own, and what examples call their place."""
    known = {clause(document, section) for document, found in SECTIONS.items() for section in found}
    begin = tuple(f"{document} §" for document in SECTIONS)
    assert [name for name in sections() if name.startswith(begin) and name not in known] == []


def test_every_fragment_that_runs_is_on_the_page() -> None:
    named = {case for row in rows() for test in row.tests for case in re.findall(r"\[(.+)\]", test)}
    assert {*CANONICAL, *FORMAL} - named == set()


# -- mutants ----------------------------------------------------------------------------------


def named(test: str, tests: tuple[str, ...]) -> bool:
    """The test, or all of its cases."""
    return test in tests or test.partition("[")[0] in tests


def test_a_row_and_its_mutants_speak_of_the_same_clause_and_test() -> None:
    for row in rows():
        for name in row.mutants:
            assert name in EVERY, f"line {row.line}: no mutant {name}"
            assert row.clause in EVERY[name].clauses, f"line {row.line}: {name} is not about {row.clause}"
            assert named(EVERY[name].test, row.tests), f"line {row.line}: {name} is shown by {EVERY[name].test}"


def test_every_clause_of_a_mutant_has_a_row_that_names_it() -> None:
    naming = {name: {row.clause for row in rows() if name in row.mutants} for name in EVERY}
    assert naming == {name: set(mutant.clauses) for name, mutant in EVERY.items()}


def test_every_must_that_is_kept_can_be_taken_away() -> None:
    kept = [row for row in rows() if row.word in ("MUST", "MUST NOT") and row.verdict == "yes"]
    assert [(row.line, row.clause) for row in kept if not row.mutants] == []


def test_enough_clauses_are_taken_away() -> None:
    """That number only grows, in all five documents and in what CI runs."""
    taken = {(row.line, row.clause) for row in rows() if any(name in QUICK for name in row.mutants)}
    assert len(taken) >= CLAUSES
    of = Counter(found.split()[0] for _, found in taken)
    assert [document for document in SECTIONS if of[document] < 5] == []
