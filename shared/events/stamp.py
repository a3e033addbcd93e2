"""Time on the wire: RFC 3339 in UTC, seconds since the epoch inside."""

from datetime import UTC, datetime


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
