"""The tables of a page of the documentation."""

import re

from tests.support.paths import DOCS

_CODE = re.compile(r"`([^`]+)`")
_CELL = re.compile(r"(?<!\\) \| ")


def rows(page: str, heading: str, header: str = "") -> list[list[str]]:
    """The cells of the tables of a section, or of the one whose first line begins with `header`."""
    section = (DOCS / page).read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found: list[list[str]] = []
    for table in re.findall(r"(?:^\|.*\n?)+", section, re.MULTILINE):
        first, _, *lines = table.splitlines()
        if first.startswith(f"| {header}"):
            found += [[cell.strip() for cell in _CELL.split(line.strip().removeprefix("|").removesuffix("|"))]
                      for line in lines]
    return found


def names(cell: str) -> list[str]:
    """What a cell has in backticks."""
    return [each.replace("\\|", "|") for each in _CODE.findall(cell)]


def codes(page: str, heading: str, header: str = "") -> list[list[list[str]]]:
    return [[names(cell) for cell in row] for row in rows(page, heading, header)]
