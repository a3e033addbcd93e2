"""The statements in `queries/`, by the names of their files."""

from collections.abc import Mapping
from pathlib import Path

QUERIES = Path(__file__).parent / "queries"


def _texts(folder: Path) -> dict[str, str]:
    return {path.stem: path.read_text() for path in sorted(folder.glob("*.sql"))}


def _composed(text: str, parts: Mapping[str, str]) -> str:
    """What several statements have in common stands in `queries/parts`, and as {its name} in them: step-runs and
    iterations are tables of their own, written from the same columns by the same rule."""
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part.rstrip())
    return text


SQL = {name: _composed(text, _texts(QUERIES / "parts")) for name, text in _texts(QUERIES).items()}
