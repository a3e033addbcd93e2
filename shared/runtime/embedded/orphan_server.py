"""A nats-server that outlived a killed stack: it must go before another opens the same store."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import structlog

from shared.errors import Unavailable

STOP_S = 10.0
POLL_S = 0.05
PID_FILE = "pid"

log = structlog.get_logger()


def remember(folder: Path, pid: int) -> None:
    (folder / PID_FILE).write_text(f"{pid}\n")


def forget(folder: Path) -> None:
    (folder / PID_FILE).unlink(missing_ok=True)


def end(folder: Path) -> None:
    """Ends the server this folder remembers, if it still runs. The caller holds the folder's lock."""
    try:
        pid = int((folder / PID_FILE).read_text())
    except (OSError, ValueError):
        return
    deadline = time.monotonic() + STOP_S
    while _is_ours(pid, folder):
        if time.monotonic() > deadline:
            raise Unavailable(f"nats-server {pid} of an earlier stack does not stop: end it (kill {pid})")
        log.warning("orphan.stopping", pid=pid)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        time.sleep(POLL_S)
    forget(folder)


def _is_ours(pid: int, folder: Path) -> bool:
    """A pid may have been given to somebody else since: the command line must name our configuration."""
    return str(folder / "nats.conf") in command_line(pid)


def command_line(pid: int) -> str:
    if not Path("/proc/self/cmdline").exists():
        shown = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return shown.stdout
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
