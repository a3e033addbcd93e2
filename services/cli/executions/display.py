"""Progress on stderr: a live tree of steps on a terminal, a line per change elsewhere.

Both are drawn from folded summaries alone, so they show what the log says and nothing else. `kin` are the summaries
of executions that this one started, by id.
"""

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TextIO

from services.cli.console import screen
from services.cli.executions.generated_names import Origins, shown
from shared.answers.history.summary import LoopProgress, StepSummary, Summary
from shared.visible import line

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree as RichTree

LOOP_LINE_EVERY_S = 1.0
REFRESH_PER_S = 10
BAR = 24  # characters
SIGNS = {"scheduled": "…", "running": "▶", "waiting": "⏸", "done": "✓", "failed": "✗", "cancelled": "–"}
STYLES = {
    "scheduled": "dim", "running": "cyan", "waiting": "blue", "done": "green", "failed": "red", "cancelled": "yellow",
}
Kin = Mapping[str, Summary]
NOBODY: Kin = {}


class Display(Protocol):
    def update(self, summary: Summary, kin: Kin = NOBODY) -> None: ...
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

    def __init__(self, out: TextIO, origins: Origins | None = None, before: str = "") -> None:
        self._out, self._origins, self._before = out, origins, before
        self._seen: dict[str, tuple[int, str]] = {}
        self._next_loop_line: dict[str, float] = {}
        self._status = ""
        self._kin: dict[str, Lines] = {}

    def update(self, summary: Summary, kin: Kin = NOBODY) -> None:
        for step in summary.steps.values():
            if self._is_news(step):
                told = f"{self._before}{SIGNS.get(step.status, ' ')} {describe(step, self._origins)}"
                self._out.write(f"{line(told)}\n")
        for each in summary.children:
            if each in kin and kin[each].path:
                self._kin.setdefault(each, Lines(self._out, None, f"{self._before}  {kin[each].path}: ")).update(
                    kin[each], kin)
        if summary.status != self._status:
            self._status = summary.status
            self._out.write(f"{self._before}  {summary.execution_id} {summary.status}\n")
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


class Silent:
    """For one of many."""

    def update(self, summary: Summary, kin: Kin = NOBODY) -> None: ...

    def close(self) -> None: ...


class Tree:
    """For people; rich is imported only here."""

    def __init__(self, out: TextIO, origins: Origins | None = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._origins = origins
        self._live = Live(
            console=Console(file=screen.under(out)),
            refresh_per_second=REFRESH_PER_S,
            transient=False,
            redirect_stdout=False,
        )
        self._live.start()

    def update(self, summary: Summary, kin: Kin = NOBODY) -> None:
        self._live.update(tree(summary, kin, self._origins))

    def close(self) -> None:
        self._live.stop()


def tree(summary: Summary, kin: Kin, origins: Origins | None) -> "RichTree":
    """Children are under the step that started them."""
    from rich.text import Text
    from rich.tree import Tree as RichTree

    name = summary.path or "execution"
    found = RichTree(Text(line(f"{name} {summary.execution_id} {summary.status}"), style=_style(summary.status)))
    places = {step.name: found.add(_line(step, origins)) for step in summary.steps.values()}
    for each, step_name in summary.children.items():
        if each in kin:
            places[step_name].add(tree(kin[each], kin, None))
    return found


def _line(step: StepSummary, origins: Origins | None) -> "Text":
    from rich.text import Text

    text = Text(line(f"{SIGNS.get(step.status, ' ')} {describe(step, origins)}"), style=_style(step.status))
    if step.loop is not None and step.loop.total:
        for part, style in bar(step.loop):
            text.append(part, style)
    return text


def bar(loop: LoopProgress) -> list[tuple[str, str]]:
    """What is done, what failed and what is left of a loop, as pieces of a line with their styles."""
    done = BAR * loop.done // loop.total
    failed = -(-BAR * loop.failed // loop.total)  # one that failed is seen
    failed = min(failed, BAR - done)
    return [("  ", ""), ("━" * done, "green"), ("━" * failed, "red"), ("─" * (BAR - done - failed), "dim")]


def _style(status: str) -> str:
    return STYLES.get({"completed": "done"}.get(status, status), "")
