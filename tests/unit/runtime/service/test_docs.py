"""The settings table of docs/operations.md is the Settings struct, no more and no less."""

import re
from pathlib import Path

import msgspec

from shared.runtime.settings import Settings

ROW = re.compile(r"^\| `(NOETL_\w+)` \| (?:`([^`]*)`)?", re.MULTILINE)
OPERATIONS = Path(__file__).parents[3] / "docs" / "operations.md"


def documented() -> dict[str, str]:
    return dict(ROW.findall(OPERATIONS.read_text(encoding="utf-8")))


def test_every_setting_is_documented_with_its_default() -> None:
    fields = msgspec.structs.fields(Settings)
    expected = {f"NOETL_{field.name.upper()}": _text(field.default) for field in fields}
    assert documented() == expected


def _text(default: object) -> str:
    return ",".join(default) if isinstance(default, tuple) else str(default)
