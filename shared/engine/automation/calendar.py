"""The instants a schedule names. An interval counts elapsed seconds; a cron expression names local times,
and the rule for clock changes says which instants those are:

    a local time that exists once       that instant
    one the clocks skip   (missing)     shift: the instant of the change; skip: none
    one that comes twice  (repeated)    once: the first; twice: both

Instants are whole seconds since the epoch. Two local times at one instant are one fire.
"""

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import takewhile
from zoneinfo import ZoneInfo

from shared.dsl.documents.schedules import Schedule
from shared.dsl.model import cron

_EPOCH = datetime(1970, 1, 1)
_HOUR = 3600
_NEAR_H = 49  # no clock has ever been moved by more than a day


def upcoming(schedule: Schedule, after: int) -> Iterator[int]:
    """Every instant after the given one, in order; ends with the schedule."""
    after = after if schedule.start is None else max(after, schedule.start - 1)
    found = _interval(schedule, after) if schedule.every else _local(schedule, after)
    return found if schedule.end is None else takewhile(lambda at: at <= (schedule.end or 0), found)


def latest(schedule: Schedule, after: int, until: int, most: int) -> tuple[list[int], bool]:
    """The last `most` instants in (after, until], and whether there were more. Looks back only as far
    as it must: for a schedule of every minute, a stop of a year is half a million instants."""
    span = _HOUR
    while True:
        low = max(after, until - span)
        found = list(takewhile(lambda at: at <= until, upcoming(schedule, low)))
        if len(found) > most:
            return found[-most:], True
        if low == after:
            return found, False
        span *= 8


def local(schedule: Schedule, at: int) -> datetime:
    return datetime.fromtimestamp(at, _zone(schedule.timezone))


def _interval(schedule: Schedule, after: int) -> Iterator[int]:
    """Counted from `start`, or from the epoch: what was fired before changes nothing."""
    origin, every = schedule.start or 0, schedule.every
    at = origin + ((after - origin) // every + 1) * every
    while True:
        yield at
        at += every


def _local(schedule: Schedule, after: int) -> Iterator[int]:
    """First instants of later local times are never earlier; second ones wait for their turn."""
    zone, seconds, last = _zone(schedule.timezone), deque[int](), after
    for wall in cron.matches(schedule.cron, _EPOCH + timedelta(seconds=after + _least_offset(zone, after))):
        instants = _instants(wall, zone, schedule)
        while instants and seconds and seconds[0] < instants[0]:
            if seconds[0] > last:
                last = seconds[0]
                yield last
            seconds.popleft()
        if instants and instants[0] > last:
            last = instants[0]
            yield last
        seconds.extend(instants[1:])
    yield from (at for at in seconds if at > last)


def _instants(wall: datetime, zone: tzinfo, schedule: Schedule) -> tuple[int, ...]:
    before, after = (_offset_of(wall.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    plain = round((wall - _EPOCH).total_seconds())
    if before == after:
        return (plain - before,)
    if before > after:  # the clocks went back: it comes twice
        return (plain - before, plain - after) if schedule.repeated == "twice" else (plain - before,)
    return (_change(zone, plain - after, plain - before),) if schedule.missing == "shift" else ()


def _change(zone: tzinfo, low: int, high: int) -> int:
    """The first second with the later offset, in (low, high]."""
    later = _offset(zone, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _offset(zone, middle) == later else (middle, high)
    return high


def _least_offset(zone: tzinfo, after: int) -> int:
    """Of the instants that come soon: a local time at or before `after` plus this offset is in the past."""
    return min(_offset(zone, after + hour * _HOUR) for hour in range(_NEAR_H))


def _offset(zone: tzinfo, at: int) -> int:
    return _offset_of(datetime.fromtimestamp(at, UTC).astimezone(zone))


def _offset_of(time: datetime) -> int:
    offset = time.utcoffset()
    assert offset is not None, "a zone has an offset at every time"
    return round(offset.total_seconds())


@lru_cache(maxsize=1024)
def _zone(name: str) -> tzinfo:
    return ZoneInfo(name)
