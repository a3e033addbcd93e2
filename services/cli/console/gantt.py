"""A Gantt chart of runs in a terminal: a bar per run, a cell in the colour or letter of what most of it went to."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from services.cli.console import screen


class Look(NamedTuple):
    """A part on a terminal, and its letter where there are no colours."""

    colour: str
    letter: str


LOOKS = {
    "run": Look("green", "#"), "queue": Look("yellow", "q"), "waiting": Look("blue", "w"),
    "backoff": Look("magenta", "b"), "limit": Look("red", "l"), "routing": Look("cyan", "r"),
    "scheduling": Look("bright_cyan", "s"), "reporting": Look("bright_green", "="),
    "takeover": Look("bright_red", "!"), "paused": Look("bright_black", "p"),
}
BLOCK = "█"
MIN_BAR = 20
MAX_LABEL = 32
TAIL = 12  # of the column of durations


def chart(rows: Iterable[tuple[str, list[dict[str, Any]], str]], wall: int, width: int, colour: bool) -> Iterator[str]:
    """`rows` are label, spans and what stands behind the bar."""
    shown = [(_cut(label), spans, text) for label, spans, text in rows]
    label_width = max((len(label) for label, _, _ in shown), default=0)
    cells = max(MIN_BAR, width - label_width - TAIL - 4)
    for label, spans, text in shown:
        yield f"{label:<{label_width}} |{_bar(spans, max(wall, 1), cells, colour)}| {text}"


def _cut(label: str) -> str:
    return label if len(label) <= MAX_LABEL else label[: MAX_LABEL - 2] + ".."


def _bar(spans: list[dict[str, Any]], wall: int, cells: int, colour: bool) -> str:
    parts = [_part(spans, wall * cell, wall * (cell + 1), cells) for cell in range(cells)]
    return "".join(_cells(part, len(list(same)), colour) for part, same in groupby(parts))


def _part(spans: list[dict[str, Any]], start: int, end: int, cells: int) -> str:
    """What most of the cell went to; times are scaled by the number of cells, so that they stay whole."""
    found: dict[str, int] = {}
    for span in spans:
        took = min(span["end_us"] * cells, end) - max(span["start_us"] * cells, start)
        if took > 0:
            found[span["part"]] = found.get(span["part"], 0) + took
    return max(found, key=lambda part: found[part]) if found else ""


def _cells(part: str, count: int, colour: bool) -> str:
    if not part:
        return " " * count
    return screen.style(BLOCK * count, fg=LOOKS[part].colour) if colour else LOOKS[part].letter * count


def legend(parts: Iterable[str], colour: bool) -> str:
    return "  ".join(f"{_cells(part, 1, colour)} {part}" for part in parts)


def took(micros: int) -> str:
    """A time for people."""
    if micros < 1_000_000:
        return f"{micros / 1000:.1f} ms"
    seconds = micros / 1e6
    if seconds < 120:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
