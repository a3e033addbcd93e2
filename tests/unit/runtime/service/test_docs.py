"""The settings table of docs/operations.md is the Settings struct, no more and no less."""

import re

import msgspec

from shared.runtime.service.settings import Settings
from tests.support.paths import DOCS

ROW = re.compile(r"^\| `(NOETL_\w+)` \| (?:`([^`]*)`)?", re.MULTILINE)
OPERATIONS = DOCS / "operations.md"


def documented() -> dict[str, str]:
    return dict(ROW.findall(OPERATIONS.read_text(encoding="utf-8")))


def test_every_setting_is_documented_with_its_default() -> None:
    fields = msgspec.structs.fields(Settings)
    expected = {f"NOETL_{field.name.upper()}": _text(field.default) for field in fields}
    assert documented() == expected


def _text(default: object) -> str:
    return ",".join(default) if isinstance(default, tuple) else str(default)
