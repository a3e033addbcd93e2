"""Folders an operator lets tasks use: what lies in them, and what stays out although it does."""

from pathlib import Path

_PASSWORDS = Path("nats", "passwords.json")  # in the folder of an embedded stack


def inside(folder: Path, given: str) -> Path | None:
    """The file that is meant, links followed, if it is in the folder and nobody's own: neither hidden (`.noetl`,
    `.git`, `.env`) nor of a stack. Raises OSError or ValueError for what is no path."""
    path = (folder / given).resolve()
    if not path.is_relative_to(folder) or any(part.startswith(".") for part in path.relative_to(folder).parts):
        return None
    return None if of_a_stack(path) else path


def of_a_stack(path: Path) -> bool:
    """In the folder of one, whatever that is called."""
    return ".noetl" in path.parts or any((each / _PASSWORDS).exists() for each in (path, *path.parents))


def holds_a_stack(folder: Path) -> bool:
    return of_a_stack(folder) or (folder / ".noetl").exists()
