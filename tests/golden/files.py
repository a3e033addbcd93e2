"""What is kept of a version: `tests/golden/<commit>/` with the fields of its records, and logs that it wrote.

A log is a compressed text: a line with the number of partitions and what in it is forged, then one line per message of
its event streams, of its results and of its playbooks: subject, sequence, the broker's time of it, its bytes as text
(or in base 64 when they are none). It is never written again. `answers.xz` is what was said of its logs when they came
here, and is what the code of today must still say; `python -m tests.golden.expect` writes it, and shows what changes.
"""

import lzma
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

FOLDER = Path(__file__).parent
LOG, ANSWERS, FIELDS = ".log.xz", "answers.xz", "fields.json"
NOTHING = "(nothing)"


class Line(Struct, frozen=True, array_like=True):
    """A message. `base64` when its bytes are no text."""

    subject: str
    seq: int
    at: int
    text: str
    base64: str = ""

    @property
    def data(self) -> bytes:
        return b64decode(self.base64) if self.base64 else self.text.encode()


class Head(Struct, frozen=True):
    """`forged` is what no service wrote, by partition and sequence."""

    partitions: int
    forged: list[tuple[int, int]] = []


class Recorded(Struct, frozen=True):
    """A log of a version."""

    version: str
    name: str
    partitions: int
    forged: set[tuple[int, int]]
    lines: list[Line]


def versions() -> list[str]:
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{FIELDS}"))


def logs(version: str) -> list[str]:
    """Their names."""
    return sorted(path.name.removesuffix(LOG) for path in (FOLDER / version).glob(f"*{LOG}"))


def recorded(version: str, name: str) -> Recorded:
    first, *others = lzma.decompress((FOLDER / version / f"{name}{LOG}").read_bytes()).splitlines()
    head = msgspec.json.decode(first, type=Head)
    lines = [msgspec.json.decode(line, type=Line) for line in others]
    return Recorded(version, name, head.partitions, set(head.forged), lines)


def record(version: str, name: str, text: bytes) -> Path:
    return _write(FOLDER / version / f"{name}{LOG}", text)


def fields(version: str) -> dict[str, dict[str, list[Any]]]:
    found: dict[str, dict[str, list[Any]]] = msgspec.json.decode((FOLDER / version / FIELDS).read_bytes())
    return found


def answers(version: str) -> dict[str, Any]:
    """By log."""
    path = FOLDER / version / ANSWERS
    found: dict[str, Any] = msgspec.json.decode(lzma.decompress(path.read_bytes())) if path.exists() else {}
    return found


def expect(version: str, found: dict[str, Any]) -> Path:
    return _write(FOLDER / version / ANSWERS, msgspec.json.encode(found, order="sorted"))


def _write(path: Path, text: bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
    return path


def differences(was: Any, found: Any, at: str = "") -> Iterator[str]:
    """In words, each with its place. What is found beside all that was is none: others may know more."""
    match was, found:
        case dict(), dict():
            for key, value in was.items():
                yield from differences(value, found.get(key, NOTHING), f"{at}.{key}" if at else key)
        case list(), list() if len(was) == len(found):
            for place, (one, other) in enumerate(zip(was, found, strict=True)):
                yield from differences(one, other, f"{at}[{place}]")
        case _ if was != found:
            yield f"{at}: {_short(was)} became {_short(found)}"


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}…"
