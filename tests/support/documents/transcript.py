"""A terminal session written down in a document: what it says to type is typed, and what is printed must fit.

A block of ```sh is what a reader pastes, all of it at once; a block of ```text behind it is what is printed then, and
without one nothing may be printed. `…` stands for any text in a line, and on a line of its own for any number of lines.
Everything runs in one shell, in a folder of its own. A command that reads its input swallows the rest of its block, as
it would on a terminal, and the session fails.
"""

import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
ANY = "…"


class Step(NamedTuple):
    """A block: `command` may be several lines."""

    line: int
    command: str
    expected: list[str]


def steps(text: str) -> Iterator[Step]:
    for block in _BLOCK.finditer(text):
        typed, printed = block.groups("")
        yield Step(text.count("\n", 0, block.start()) + 2, typed.rstrip("\n"), printed.splitlines())


def misfit(expected: list[str], got: list[str]) -> str:
    """The first expected line that is not there; empty when all fits."""
    if not expected:
        return f"nothing is expected, but it prints {got[0]!r}" if got else ""
    at, loose = 0, False
    for wanted in expected:
        if wanted.strip() == ANY:
            loose = True
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in wanted.rstrip().split(ANY)) + r"\Z")
        while loose and at < len(got) and not pattern.match(got[at]):
            at += 1
        if at >= len(got) or not pattern.match(got[at]):
            return f"expected {wanted!r}, got {got[at]!r}" if at < len(got) else f"expected {wanted!r}, got no more"
        at, loose = at + 1, False
    return "" if loose or at == len(got) else f"it goes on with {got[at]!r}"


class Shell:
    """One bash for the whole session."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], cwd=folder, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )
        self._count = 0

    def run(self, command: str, within: float) -> list[str]:
        self._count += 1
        mark = f"<<{self._count}>>"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\necho '{mark}'\n".encode())
        self._process.stdin.flush()
        end, text = time.monotonic() + within, ""
        while not text.endswith(f"{mark}\n"):
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))
            found = os.read(self._process.stdout.fileno(), 65_536) if ready else b""
            if not found:
                raise AssertionError(f"{command}: not done within {within:.0f} s; so far it printed\n{text}")
            text += found.decode(errors="replace")
        lines = [line.rstrip() for line in text.removesuffix(f"{mark}\n").split("\n")]
        return lines[:-1] if not lines[-1] else lines

    def close(self) -> None:
        """With everything it started."""
        try:
            os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait(30)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)
        finally:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
