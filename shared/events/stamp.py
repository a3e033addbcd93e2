"""Time on the wire: RFC 3339 in UTC, seconds since the epoch inside."""

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=16)  # a decision and its record have one time
def stamp(seconds: float) -> str:
    micros = round(seconds * 1e6)
    return f"{_second(micros // 1_000_000)}.{micros % 1_000_000:06d}Z"


@lru_cache(maxsize=64)
def _second(whole: int) -> str:
    return datetime.fromtimestamp(whole, UTC).isoformat()[:-6]


def recorded(seconds: float) -> float:
    """The time as whoever reads its stamp has it."""
    return round(seconds * 1e6) / 1_000_000


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
