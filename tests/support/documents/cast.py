"""`python -m tests.support.documents.cast` records docs/first-ten-minutes.cast: the session of
docs/first-ten-minutes.md on a terminal, as asciicast version 2."""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import tempfile
import termios
import time
from pathlib import Path

from services.cli.executions.control_requests import me
from tests.e2e.test_first_minutes import MINUTES, WITHIN_S
from tests.support.documents import fresh, transcript
from tests.support.paths import DOCS

WIDTH, HEIGHT = 120, 36
LONGEST_PAUSE_S = 1.5
TYPING_S = 0.03
MARK = "<<done>>"


class Recording:
    """Output with its times; nobody wants to watch a pause."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._events: list[tuple[float, str]] = []
        self._at, self._last = 0.0, time.monotonic()

    def say(self, text: str) -> None:
        now = time.monotonic()
        self._at += min(now - self._last, LONGEST_PAUSE_S)
        self._last = now
        self._events.append((self._at, text.replace(me(), "you@laptop").replace(self._folder, "/home/you/first")))

    def type(self, text: str) -> None:
        for letter in text:
            self._at += TYPING_S
            self._events.append((self._at, letter))
        self._last = time.monotonic()

    def write(self, file: Path) -> None:
        header = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": "NoETL: the first ten minutes"}
        lines = [json.dumps(header), *(json.dumps([round(at, 3), "o", text]) for at, text in self._events)]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def record(installed: Path, folder: Path, file: Path) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    environment = {**fresh.active(installed, folder / "home"), "TERM": "xterm-256color", "COLUMNS": str(WIDTH)}
    shell = subprocess.Popen(
        ["bash", "--norc", "--noprofile"], cwd=folder, env=environment, stdin=subprocess.PIPE,
        stdout=theirs, stderr=theirs, start_new_session=True,
    )
    recording = Recording(folder)
    try:
        for line in [line for step in transcript.steps(MINUTES) for line in step.command.splitlines()]:
            recording.type(f"$ {line}\r\n")
            _run(shell, ours, line, recording)
    finally:
        assert shell.stdin is not None
        shell.stdin.close()
        os.killpg(shell.pid, 15)
        shell.wait(30)
    recording.write(file)


def _run(shell: "subprocess.Popen[bytes]", ours: int, command: str, recording: Recording) -> None:
    assert shell.stdin is not None
    shell.stdin.write(f"{command}\necho '{MARK}'\n".encode())
    shell.stdin.flush()
    end, text = time.monotonic() + WITHIN_S, ""
    while MARK not in text:
        ready, _, _ = select.select([ours], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"{command}: not done within {WITHIN_S:.0f} s"
        found = os.read(ours, 65_536).decode(errors="replace")
        text += found
        shown = found.partition(MARK)[0] if MARK in text else found
        if shown:
            recording.say(shown)


if __name__ == "__main__":
    with fresh.made() as installed, tempfile.TemporaryDirectory(prefix="noetl-minutes-") as name:
        record(installed, Path(name), DOCS / "first-ten-minutes.cast")
