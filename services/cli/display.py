"""Progress on stderr: a live tree of steps on a terminal, a line per change elsewhere.

Both are drawn from the folded summary alone, so they show what the log says and nothing else.
"""

import sys
import time
from typing import Protocol, TextIO

from services.cli.origins import Origins, shown
from shared.engine.summary import StepSummary, Summary

LOOP_LINE_EVERY_S = 1.0
REFRESH_PER_S = 10
SIGNS = {"scheduled": "…", "running": "▶", "waiting": "⏸", "done": "✓", "failed": "✗", "cancelled": "–"}
STYLES = {
    "scheduled": "dim", "running": "cyan", "waiting": "blue", "done": "green", "failed": "red", "cancelled": "yellow",
}


class Display(Protocol):
    def update(self, summary: Summary) -> None: ...
    def close(self) -> None: ...


def choose(stream: TextIO | None = None, origins: Origins | None = None) -> Display:
    out = stream or sys.stderr
    return Tree(out, origins) if out.isatty() else Lines(out, origins)


def describe(step: StepSummary, origins: Origins | None = None) -> str:
    parts = [shown(step.name, origins or {})]
    if step.runs > 1:
        parts.append(f"(run {step.runs})")
    if step.loop is not None:
        finished = step.loop.done + step.loop.failed
        parts.append(f"{finished}/{step.loop.total}" + (f", {step.loop.failed} failed" if step.loop.failed else ""))
    if step.status == "running" and step.loop is None and step.task:
        parts.append(shown(step.task, origins or {}) + (f", attempt {step.attempt}" if step.attempt > 1 else ""))
    if step.status == "waiting":
        parts.append(f"{shown(step.task, origins or {})} waits {step.wait}")
    return " ".join(parts)


class Lines:
    """For pipes and log files."""

    def __init__(self, out: TextIO, origins: Origins | None = None) -> None:
        self._out, self._origins = out, origins
        self._seen: dict[str, tuple[int, str]] = {}
        self._next_loop_line: dict[str, float] = {}
        self._status = ""

    def update(self, summary: Summary) -> None:
        for step in summary.steps.values():
            if self._is_news(step):
                self._out.write(f"{SIGNS.get(step.status, ' ')} {describe(step, self._origins)}\n")
        if summary.status != self._status:
            self._status = summary.status
            self._out.write(f"  {summary.execution_id} {summary.status}\n")
        self._out.flush()

    def _is_news(self, step: StepSummary) -> bool:
        state, now = (step.runs, step.status), time.monotonic()
        due = now >= self._next_loop_line.get(step.name, 0.0)
        progress = step.loop is not None and step.status == "running" and due
        if self._seen.get(step.name) == state and not progress:
            return False
        self._seen[step.name] = state
        self._next_loop_line[step.name] = now + LOOP_LINE_EVERY_S
        return step.status != "scheduled"

    def close(self) -> None:
        self._out.flush()


class Tree:
    """For people; rich is imported only here."""

    def __init__(self, out: TextIO, origins: Origins | None = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._origins = origins
        self._live = Live(
            console=Console(file=out),
            refresh_per_second=REFRESH_PER_S,
            transient=False,
            redirect_stdout=False,
        )
        self._live.start()

    def update(self, summary: Summary) -> None:
        from rich.text import Text
        from rich.tree import Tree as RichTree

        name = summary.path or "execution"
        tree = RichTree(Text(f"{name} {summary.execution_id} {summary.status}", style=_style(summary.status)))
        for step in summary.steps.values():
            line = f"{SIGNS.get(step.status, ' ')} {describe(step, self._origins)}"
            tree.add(Text(line, style=_style(step.status)))
        self._live.update(tree)

    def close(self) -> None:
        self._live.stop()


def _style(status: str) -> str:
    return STYLES.get({"completed": "done"}.get(status, status), "")
