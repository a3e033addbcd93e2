"""Times as people write and read them: `2h`, `1h30m`, `now`, a date, or ISO 8601; local time unless a zone is given."""

import re
from datetime import UTC, datetime
from typing import Any

import click

FORMS = "2h, 30m, 1d12h, now, 2026-11-16, or 2026-11-16T10:00:00Z"
_STAMP = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z")  # as the log has it
UNITS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


def moment(text: str, now: datetime) -> datetime:
    """A length is that long ago. ValueError when it is none of the forms."""
    from shared.dsl.model.durations import seconds_of

    text = text.strip()
    if text == "now":
        return now
    if (ago := seconds_of(text.removeprefix("-"))) is not None:
        return datetime.fromtimestamp(max(now.timestamp() - ago, 0.0), UTC)
    return datetime.fromisoformat(text).astimezone()


class Moment(click.ParamType[datetime]):
    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return moment(value, datetime.now(UTC))
        except (ValueError, OverflowError, OSError):
            self.fail(f"{value!r} is not a time: write {FORMS}", param, ctx)


def length(seconds: float, *, exact: bool = False) -> str:
    """The two largest units that are not zero: 1d2h, 3m5s, 2.5s, 16ms; of whole seconds all of them when `exact`."""
    if seconds < 10 and not exact:
        return f"{seconds:.3g}s" if seconds >= 1 else f"{max(seconds, 0.0) * 1000:.0f}ms"
    left, parts = round(seconds), []
    for unit, size in UNITS:
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    return "".join(parts if exact else parts[:2])


def local(at: datetime) -> str:
    """The one form in which people are shown times; `--since` takes it too."""
    return at.astimezone().isoformat(" ", "seconds")


def shown(text: str, *, exact: bool = False) -> str:
    """A time out of the log or of JSON, in that form; `exact`, where things follow each other within a second: with
    milliseconds. Nothing of nothing."""
    return parsed(text).astimezone().isoformat(" ", "milliseconds" if exact else "seconds") if text else ""


def localized(text: str) -> str:
    """A sentence with the times in it as people are shown them."""
    return _STAMP.sub(lambda found: shown(found[0]), text)


def in_zone(at: datetime) -> str:
    """In its own zone: of a schedule, which has one."""
    return at.isoformat(" ", "seconds")


def parsed(text: str) -> datetime:
    """A time out of the log."""
    return datetime.fromisoformat(text)


def between(start: datetime | None, end: datetime | None, now: datetime) -> str:
    """How long something took, or has taken so far."""
    return length(((end or now) - start).total_seconds()) if start is not None else ""
