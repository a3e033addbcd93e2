"""Runs a service whose wall clock lies: `CLOCK_FILE=… python -m tests.chaos.driving.skewed worker`.

The file holds the seconds by which the clock is ahead, and is read at every look at the clock, so that a test can step
it while the service runs. Monotonic time is left alone, as a step of a host's clock leaves it alone.
"""

import os
import runpy
import sys
import time
from pathlib import Path

CLOCK_FILE = "CLOCK_FILE"
_time, _time_ns = time.time, time.time_ns


def set_ahead(file: Path, seconds: float) -> None:
    """In one piece: the service may read it at any moment."""
    fresh = file.with_suffix(".fresh")
    fresh.write_text(repr(seconds))
    fresh.replace(file)


def ahead(file: Path) -> float:
    return float(file.read_text())


def main(kind: str, file: Path) -> None:
    time.time = lambda: _time() + ahead(file)
    time.time_ns = lambda: _time_ns() + int(ahead(file) * 1e9)
    sys.argv = [f"services.{kind}"]
    runpy.run_module(f"services.{kind}", run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1], Path(os.environ[CLOCK_FILE]))
