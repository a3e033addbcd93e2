"""Keeps the processes of a call together: a process that runs no code of authors, adopts whatever they leave behind,
and ends it all with the call, or with the worker, however the worker ends. Code may signal whoever keeps it: above
each warden is another that takes over when it ends or is stopped. Imports nothing of ours. On systems other than Linux
nobody can adopt: there only the process group of a call ends with it."""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from typing import NoReturn

SUBREAPER, DEATH_SIGNAL = 36, 1  # of prctl(2)
SETTLE_S = 5.0  # for processes that the kernel does not end at once
LOOK_S = 0.01
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
_LOOK = os.WEXITED | os.WNOHANG | os.WNOWAIT
STOPS = os.WSTOPPED if sys.platform == "linux" else 0


def adopt_orphans() -> None:
    """From now on whatever loses its parent below this process becomes its child."""
    _prctl(SUBREAPER, 1)


def die_with(parent: int) -> None:
    """This process is killed when its parent ends."""
    _prctl(DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before we asked
        os._exit(1)


def hear_of_end() -> None:
    """This process hears when its parent ends, also one that was stopped: the signal lets it continue."""
    _prctl(DEATH_SIGNAL, signal.SIGCONT)


def _prctl(what: int, value: int) -> None:
    if _libc is not None:
        _libc.prctl(what, value, 0, 0, 0)


def go_below(lifeline: int, own: int) -> int:
    """Returns in a copy of this process that is kept by two wardens, this one and a copy, and ends with them: the id of
    the one above it. Sessions of their own: no signal to a group reaches two. `own` is a descriptor for it alone."""
    home = 0
    for keeps_warden in (True, False):
        home, parent = os.getpid(), os.getppid()
        adopt_orphans()
        hear_of_end()
        if child := os.fork():
            os.close(own)
            guard(child, lifeline, parent, keeps_warden)
        os.setsid()
    os.close(lifeline)
    die_with(home)
    adopt_orphans()
    return home


def guard(child: int, lifeline: int, parent: int, keeps_warden: bool) -> NoReturn:
    """Keeps a child as `watch` does, and ends as the child did."""
    code = watch(child, lifeline, parent, STOPS if keeps_warden else 0)
    if code < 0:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(abs(code))


def watch(child: int, lifeline: int, parent: int, stops: int = 0) -> int:
    """Until the child ends (or is stopped, with `stops`), nobody holds the other end of the lifeline, or the parent is
    gone; then nothing below this process is left. Its exit code, or minus the signal. A byte that comes is a signal
    for the child's group."""
    wakes = wake_on_signals()
    while (found := os.waitid(os.P_PID, child, _LOOK | stops)) is None and os.getppid() == parent:
        if lifeline not in select.select([wakes, lifeline], [], [])[0]:
            os.read(wakes, 64)
        elif said := _said(lifeline):
            signal_group(child, said[0])
        else:
            break
    if found is not None and found.si_code == os.CLD_STOPPED:
        os.write(2, b"its warden was stopped\n")
    signal_group(child, signal.SIGKILL)  # and whoever is left of its group, while its id is its own
    _, status = os.waitpid(child, 0)
    end_all()
    return os.waitstatus_to_exitcode(status)


def wake_on_signals() -> int:
    """A descriptor to wait for: a child has ended or was stopped, or the parent has ended."""
    wakes, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for number in (signal.SIGCHLD, signal.SIGCONT):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    return wakes


def _said(lifeline: int) -> bytes:
    try:
        return os.read(lifeline, 1)
    except OSError:  # a socket that was reset
        return b""


def signal_group(leader: int, number: int) -> None:
    """To the group of a process that is not reaped: its id is its own. While it starts it may have no group yet."""
    for tell in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            tell(leader, number)
            return


def end_all() -> None:
    """Ends every process below this one: those whose parents end become children of ours, and are next."""
    until = time.monotonic() + SETTLE_S
    while has_children() and time.monotonic() < until:
        kill(children())
        _reap()


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def has_children() -> bool:
    """Running or ended; with `adopt_orphans` whatever lost its parent below this process is among them."""
    try:
        os.waitid(os.P_ALL, 0, _LOOK)
    except ChildProcessError:
        return False
    return True


def _reap() -> None:
    """Waits a moment for children to end."""
    with contextlib.suppress(ChildProcessError):
        found, _ = os.waitpid(-1, os.WNOHANG)
        if not found:
            time.sleep(LOOK_S)
        while found:
            found, _ = os.waitpid(-1, os.WNOHANG)


def children() -> list[int]:
    """Of this process, as far as the system tells."""
    own, found = str(os.getpid()).encode(), list[int]()
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir("/proc"):
            if name.isdigit() and _parent(name) == own:
                found.append(int(name))
    return found


def _parent(pid: str) -> bytes:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[1]
    except OSError:
        return b""
