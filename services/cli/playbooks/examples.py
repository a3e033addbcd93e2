"""The examples that `noetlctl init --example` writes: each is a folder of files that run as they are."""

from collections.abc import Iterator
from pathlib import Path

_OF_A_CHECKOUT = Path(__file__).parents[3] / "examples"
_OF_A_WHEEL = Path(__file__).parents[1] / "examples"  # put there when it is built: pyproject.toml


def folder() -> Path:
    return _OF_A_WHEEL if _OF_A_WHEEL.is_dir() else _OF_A_CHECKOUT


def names() -> list[str]:
    found = folder()
    return sorted(each.name for each in found.glob("[a-z]*") if each.is_dir())


def files(name: str) -> Iterator[Path]:
    """Those of the example, without what running it left there."""
    return (file for file in sorted((folder() / name).iterdir()) if file.is_file() and not file.name.startswith("."))


def command(name: str) -> str:
    """What runs it, as the table of the examples says."""
    for line in (folder() / "README.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if cells[0].strip() == f"`{name}`":
            return cells[1].strip("`")
    raise LookupError(name)
