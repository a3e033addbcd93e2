"""Test files: found in folders, read, and checked against the playbooks they are about."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from services.cli.console import exits
from services.cli.console.exits import CliError
from shared.dsl.compile import compile_playbook
from shared.dsl.model.plan import Plan
from shared.dsl.playtests.model import PlayTest
from shared.dsl.playtests.read import CompiledTest, compile_test
from shared.tools import registry

PATTERNS = ("*.test.yaml", "*.test.yml")
MAX_FILES = 10_000


class Book(Struct, frozen=True):
    """A playbook's file; `plan` is the reason when it has none."""

    file: str
    source: bytes
    plan: Plan | str


class Suite(Struct, frozen=True):
    """`books` are the playbooks it is about, the one under test first."""

    file: str
    compiled: CompiledTest
    books: tuple[Book, ...]


class Library:
    """Playbooks by file, each compiled once."""

    def __init__(self) -> None:
        self._books: dict[Path, Book] = {}

    def book(self, file: Path) -> Book:
        place = file.resolve()
        if place not in self._books:
            self._books[place] = _book(file)
        return self._books[place]

    def test(self, file: Path) -> Suite:
        try:
            source = file.read_bytes()
        except OSError as error:
            raise CliError(f"cannot read {file}: {error.strerror}", exits.USAGE) from None
        books: list[Book] = []

        def plan_of(name: str) -> Plan | str:
            book = self.book(file.parent / name)
            books.append(book)
            return book.plan

        return Suite(str(file), compile_test(source, plan_of, file=str(file)), tuple(books))


def _book(file: Path) -> Book:
    try:
        source = file.read_bytes()
    except (OSError, ValueError) as error:
        return Book(str(file), b"", getattr(error, "strerror", None) or "its name is not one of a file")
    compiled = compile_playbook(source, file=str(file), kinds=registry.specs())
    if compiled.plan is not None:
        return Book(str(file), source, compiled.plan)
    errors = [each for each in compiled.diagnostics if each.severity == "error"]
    return Book(str(file), source, f"{len(errors)} error{'s' if len(errors) > 1 else ''}, the first on line "
                f"{errors[0].line}: {errors[0].message}")


def summary(test: PlayTest) -> str:
    """One line about a valid test."""
    return f"test of {test.playbook}, {len(test.cases)} case{'s' if len(test.cases) != 1 else ''}"


def find(given: Sequence[Path]) -> list[Path]:
    """The files themselves, and those of a test's name in the folders; each once."""
    found: dict[Path, Path] = {}
    for each in given:
        for file in _inside(each) if each.is_dir() else [each]:
            found.setdefault(file.resolve(), file)
    if not found:
        raise CliError(f"no {PATTERNS[0]} in {', '.join(str(each) for each in given)}", exits.USAGE)
    if len(found) > MAX_FILES:
        raise CliError(f"{len(found)} test files, over the limit of {MAX_FILES}: name fewer folders", exits.USAGE)
    return list(found.values())


def _inside(folder: Path) -> Iterator[Path]:
    files = sorted({file for pattern in PATTERNS for file in folder.rglob(pattern)})
    for file in files:
        if not any(part.startswith(".") and part not in (".", "..") for part in file.relative_to(folder).parts):
            yield file
