"""`kind: Schedule`: when a playbook runs, and what becomes of times that were missed or overlap."""

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal
from zoneinfo import ZoneInfo, available_timezones

from msgspec import Struct

from shared.dsl.documents.header import PlaybookRef, read_head, read_playbook
from shared.dsl.model import cron
from shared.dsl.model.durations import seconds_of
from shared.dsl.read.known_names import read_templates
from shared.dsl.read.reader import Reader, short
from shared.dsl.source.nodes import Path

SPEC_KEYS = ("playbook", "cron", "every", "timezone", "dst", "catch_up", "overlap", "start", "end", "paused")
MIN_EVERY_S, MAX_EVERY_S = 1, 366 * 86_400
MIN_YEAR, MAX_YEAR = 1971, 2199
MAX_MADE_UP = 1000
DEFAULT_MADE_UP = 100
MISSING = ("shift", "skip")
REPEATED = ("once", "twice")
CATCH_UP = ("none", "last", "all")
OVERLAP = ("allow", "skip", "cancel")
NAMES = {"schedule": frozenset({"name", "time", "local", "unix"})}
_SPEC: Path = ("spec",)
_CRON_FIX = f"five fields ({cron.FIELDS}), as in cron: '0 2 * * *'"


class Schedule(Struct, frozen=True):
    """`cron` or `every` (seconds) is given. `start` and `end` are seconds since the epoch, both
    included. `made_up` is the most that `catch_up: all` makes up. `paused` None: as it was. Its executions get
    the `labels`."""

    name: str
    playbook: PlaybookRef
    cron: str = ""
    every: int = 0
    timezone: str = "UTC"
    missing: Literal["shift", "skip"] = "shift"
    repeated: Literal["once", "twice"] = "once"
    catch_up: Literal["none", "last", "all"] = "none"
    made_up: int = DEFAULT_MADE_UP
    overlap: Literal["allow", "skip", "cancel"] = "allow"
    start: int | None = None
    end: int | None = None
    paused: bool | None = None
    labels: dict[str, str] = {}


def timing(schedule: Schedule) -> tuple[object, ...]:
    """What the times follow from: with another timing, times gone by were never promised."""
    return (schedule.cron, schedule.every, schedule.timezone, schedule.missing, schedule.repeated,
            schedule.start, schedule.end)


def read_schedule(reader: Reader, root: Mapping[str, Any]) -> Schedule:
    name, labels = read_head(reader, root, "the schedule")
    spec = reader.section(root, "spec", (), SPEC_KEYS)
    if not isinstance(root.get("spec"), dict):
        return Schedule(name, PlaybookRef(""))
    playbook = read_playbook(reader, spec, "the schedule", payload=True)
    read_templates(reader, playbook.payload, (*_SPEC, "playbook", "payload"), NAMES)
    zone = _zone(reader, spec)
    expression, every = _when(reader, spec)
    missing, repeated = _dst(reader, spec)
    mode, made_up = _catch_up(reader, spec)
    found: dict[str, Any] = {
        "overlap": _choice(reader, spec, "overlap", OVERLAP), "start": _time(reader, spec, "start", zone),
        "end": _time(reader, spec, "end", zone),
        "paused": reader.boolean(spec["paused"], (*_SPEC, "paused")) if "paused" in spec else None,
        "labels": labels,
    }
    _agree(reader, mode, found)
    return Schedule(
        name=name, playbook=playbook, cron=expression, every=every, timezone=zone, missing=missing, repeated=repeated,
        catch_up=mode, made_up=made_up, **found,
    )


def _when(reader: Reader, spec: Mapping[str, Any]) -> tuple[str, int]:
    given = [key for key in ("cron", "every") if key in spec]
    if len(given) != 1:
        says = "cron and every are both given" if given else "the schedule has neither cron nor every"
        reader.key((*_SPEC, *given[1:]), "DSL202" if not given else "DSL204", says,
                   "write one of the two: cron: '0 2 * * *' or every: 15m")
        return "", 0
    return (_cron(reader, spec["cron"]), 0) if given == ["cron"] else ("", _every(reader, spec["every"]))


def _cron(reader: Reader, value: Any) -> str:
    path = (*_SPEC, "cron")
    text = reader.text(value, path, _CRON_FIX, most=cron.MAX_CRON)
    wrong = cron.fault(text) if 0 < len(text) <= cron.MAX_CRON and text.strip() else ""
    if wrong:
        reader.value(path, "DSL204", f"cron {short(text)}: {wrong}", _CRON_FIX)
    return text


def _every(reader: Reader, value: Any) -> int:
    path = (*_SPEC, "every")
    found = seconds_of(value) if isinstance(value, str) else value
    if isinstance(found, bool) or not isinstance(found, int | float) or found != int(found):
        reader.value(path, "DSL203", f"every {short(value)} is not a whole number of seconds",
                     "write every: 30s, 15m, 6h or 1d")
        return MIN_EVERY_S
    return reader.whole(int(found), path, MIN_EVERY_S, MAX_EVERY_S)


def _zone(reader: Reader, spec: Mapping[str, Any]) -> str:
    if "timezone" not in spec:
        return "UTC"
    path, known = (*_SPEC, "timezone"), _zones()
    name = reader.text(spec["timezone"], path, "write timezone: Europe/Berlin", most=64)
    if not name or name in known:
        return name or "UTC"
    near = reader.nearest(name, sorted(known, key=lambda zone: (zone[:2] != name[:2], zone)))
    reader.value(path, "DSL204", f"there is no time zone {short(name)}",
                 f"did you mean {near}?" if near else "a name of the IANA list, as Europe/Berlin or UTC")
    return "UTC"


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    """Looked up on disk once: `localtime` and other names of one machine are not among them."""
    return frozenset(available_timezones())


def _dst(reader: Reader, spec: Mapping[str, Any]) -> tuple[Any, Any]:
    path = (*_SPEC, "dst")
    if "dst" in spec and "every" in spec:
        reader.key(path, "DSL204", "an interval is elapsed time: clocks that change do not matter to it",
                   "leave dst out, or write cron")
    dst = reader.section(spec, "dst", _SPEC, ("missing", "repeated"))
    return _choice(reader, dst, "missing", MISSING, path), _choice(reader, dst, "repeated", REPEATED, path)


def _catch_up(reader: Reader, spec: Mapping[str, Any]) -> tuple[Any, int]:
    path, value = (*_SPEC, "catch_up"), spec.get("catch_up", "none")
    if not isinstance(value, dict):
        return reader.choice(value, path, CATCH_UP), DEFAULT_MADE_UP
    reader.keys(value, path, ("mode", "most"), {}, "catch_up")
    reader.required(value, "mode", path, "catch_up", "write catch_up: {mode: all, most: 100}")
    mode = _choice(reader, value, "mode", CATCH_UP, path)
    if "most" not in value:
        return mode, DEFAULT_MADE_UP
    if mode != "all":
        reader.key((*path, "most"), "DSL204", f"most has no meaning with mode {mode}",
                   "leave it out, or write mode: all")
    return mode, reader.whole(value["most"], (*path, "most"), 1, MAX_MADE_UP)


def _choice(reader: Reader, owner: Mapping[str, Any], key: str, choices: tuple[str, ...], path: Path = _SPEC) -> Any:
    return reader.choice(owner[key], (*path, key), choices) if key in owner else choices[0]


def _time(reader: Reader, spec: Mapping[str, Any], key: str, zone: str) -> int | None:
    """A time without an offset is one of the schedule's zone."""
    if key not in spec:
        return None
    fix = f"write {key}: '2026-01-31T06:00:00', with Z or an offset, or in the schedule's time zone"
    text = reader.text(spec[key], (*_SPEC, key), fix, most=64)
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        found = None
    if found is not None and MIN_YEAR <= found.year <= MAX_YEAR:
        return int((found if found.tzinfo else found.replace(tzinfo=ZoneInfo(zone))).timestamp())
    if text:
        what = "is not a time" if found is None else f"is not in the years {MIN_YEAR} to {MAX_YEAR}"
        reader.value((*_SPEC, key), "DSL204", f"{key} {short(text)} {what}", fix)
    return None


def _agree(reader: Reader, mode: str, found: Mapping[str, Any]) -> None:
    start, end = found["start"], found["end"]
    if start is not None and end is not None and end < start:
        reader.value((*_SPEC, "end"), "DSL204", "the schedule ends before it starts", "write an end after start")
    if mode == "all" and found["overlap"] == "cancel":
        reader.value((*_SPEC, "overlap"), "DSL204", "each missed time that is made up would cancel the one before",
                     "write overlap: skip to make them up one after another, allow for all at once, or catch_up: last")
