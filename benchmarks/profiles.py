"""A profile as text: where the time of one service went."""

import io
import pstats
from pathlib import Path

TOP = 40


def write_summary(stats: Path) -> Path:
    """Turns the cProfile file into `<name>.txt` beside it: the most expensive functions by their own
    time, then by time with what they called."""
    out = io.StringIO()
    profile = pstats.Stats(str(stats), stream=out).strip_dirs()
    for order in ("tottime", "cumulative"):
        profile.sort_stats(order).print_stats(TOP)
    text = stats.with_suffix(".txt")
    text.write_text(out.getvalue())
    return text
