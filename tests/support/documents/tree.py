"""noetlctl as a tree of commands, and the shapes its documentation promises."""

import re
from collections.abc import Iterator

import click

from services.cli import main
from tests.support.paths import DOCS

PAGE = DOCS / "cli.md"
JSON = "## What -o json prints"
_CODE = re.compile(r"`([^`]+)`")


def commands() -> dict[tuple[str, ...], click.Command]:
    """Every command and every group, by the words one types."""
    return dict(_below(main.cli, ()))


def _below(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None, f"{path} {name} is listed and not there"
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from _below(command, (*path, name))


def formats(command: click.Command) -> tuple[str, ...]:
    """The choices of its -o."""
    for param in command.params:
        if "-o" in param.opts:
            assert isinstance(param.type, click.Choice)
            return tuple(param.type.choices)
    return ()


def shapes() -> dict[str, str]:
    """What is typed after `noetlctl` → the shape of its JSON, as the documentation has it."""
    section = PAGE.read_text(encoding="utf-8").split(JSON)[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {typed: row[1].rstrip(" |") for row in rows for typed in _CODE.findall(row[0])}


def is_documented(typed: str) -> bool:
    """By a row of the table; or, where the object is larger, by a section of its own that shows it."""
    if any(f"{row} ".startswith(f"{typed} ") for row in shapes()):
        return True
    heading = re.compile(rf"\A.*\b{re.escape(typed.split()[0])}\b")
    sections = [part for file in DOCS.glob("*.md") for part in file.read_text(encoding="utf-8").split("\n## ")]
    return any(heading.match(section) and "-o json" in section for section in sections)


def keys(shape: str) -> tuple[bool, frozenset[str]]:
    """Whether a list is printed, and the keys of each object."""
    text = _CODE.findall(shape)[0]
    return text.startswith("["), frozenset(text.strip("[]{}").split(", "))
