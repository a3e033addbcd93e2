"""The house is as its plan says: rooms of a size, each with a word about it, and no sign to a room that is gone."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.cli.main import COMMANDS
from tests.support.documents import tree
from tests.support.paths import ROOT

CODE = ("shared", "services", "tests")
MAX_MODULES = 25  # of a folder, beside its __init__
ANY_NUMBER = ROOT / "services/cli/commands"  # as many as there are command words
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

_TOP = "benchmarks|deploy|docs|examples|page|requirements|services|shared|tests"
_PATH = re.compile(rf"(?<![\w./@:-])(?:{_TOP})/[\w./*-]*[\w*/]")
_LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
_MODULE = re.compile(rf"-m ((?:{_TOP})(?:\.\w+)*)")


def modules() -> dict[Path, list[str]]:
    found: dict[Path, list[str]] = {}
    for top in CODE:
        for file in sorted((ROOT / top).rglob("*.py")):
            found.setdefault(file.parent, []).append(file.name)
    return found


FOLDERS = modules()
PACKAGES = [folder for folder in FOLDERS if folder.relative_to(ROOT).parts[0] != "tests"]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("folder", [each for each in FOLDERS if each != ANY_NUMBER], ids=name)
def test_a_folder_can_be_seen_at_a_glance(folder: Path) -> None:
    found = [each for each in FOLDERS[folder] if each != "__init__.py"]
    assert len(found) <= MAX_MODULES, "make a room of some of them"


@pytest.mark.parametrize("package", PACKAGES, ids=name)
def test_a_package_says_what_it_is_for_and_holds_nothing_else(package: Path) -> None:
    body = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    assert ast.get_docstring(body)
    assert len(body.body) == 1


def test_the_commands_room_holds_the_command_words_and_nothing_else() -> None:
    admin = {path[1] for path in tree.commands() if path[0] == "admin" and len(path) > 1}
    words = [*COMMANDS, *(f"admin_{each}" for each in admin)]
    wanted = {f"{word.replace('-', '_')}.py" for word in words}
    assert set(FOLDERS[ANY_NUMBER]) == {"__init__.py", *wanted}


def named(page: Path) -> Iterator[Path]:
    """What a page names: paths from the root, links from where it stands, modules to run."""
    text = page.read_text(encoding="utf-8")
    yield from (ROOT / found for found in _PATH.findall(text) if not is_a_name(found))
    yield from (page.parent / found for found in _LINK.findall(text))
    for found in _MODULE.findall(text):
        file = ROOT / found.replace(".", "/")
        yield file if file.is_dir() else file.with_suffix(".py")


def is_a_name(path: str) -> bool:
    """Playbooks and steps are called like this too: `examples/hello`."""
    return path.startswith(("examples/", "tests/")) and not path.endswith("/") and "." not in path


def exists(path: Path) -> bool:
    if "*" in path.name:
        return any(path.parent.glob(path.name))
    return path.exists()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_a_page_names_is_there(page: Path) -> None:
    assert sorted({str(path) for path in named(page) if not exists(path)}) == []
