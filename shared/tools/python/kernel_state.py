"""What the kernel keeps of a process from one call of `kind: python` to the next, as far as it costs little to read."""

import _signal  # type: ignore[import-not-found]  # signal's own functions make enums of all they return
import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

Look = Callable[[], Any]
_SIGNALS = [int(number) for number in signal.Signals]
_ALARMS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_LIMITS = sorted({number for name, number in vars(resource).items() if name.startswith("RLIMIT_")})
_LINUX = sys.platform == "linux"
_DESCRIPTORS = "/proc/self/fd" if _LINUX else "/dev/fd"
_STANDARD = (0, 1, 2)
_FIXED = ("pid", "time")  # namespaces that a process stays in
_SIZE = 16 * 1024  # bytes, more than a file of /proc/self that we read has
_OF_THE_C_LIBRARY = 0b11 << 31  # signals 32 and 33, which it catches from the first thread on
_DEATH_SIGNAL, _DUMPABLE, _SUBREAPER, _TIMER_SLACK = 2, 3, 37, 30  # as prctl(2) is asked for them


class _OpenFiles:
    """How many there are; newer kernels say it without a list of them."""

    def __init__(self) -> None:
        self._folder = os.open(_DESCRIPTORS, os.O_RDONLY)

    def __call__(self) -> int:
        return os.fstat(self._folder).st_size or len(os.listdir(_DESCRIPTORS))


class _File:
    """Of /proc/self, by a descriptor: code may leave another root, in which there is no /proc."""

    def __init__(self, name: str) -> None:
        self._file = os.open(f"/proc/self/{name}", os.O_RDONLY)

    def __call__(self) -> bytes:
        return os.pread(self._file, _SIZE, 0)


class _Status(_File):
    """Signals, capabilities, system call filters, processors and nodes of memory: one part of the file. What is
    before and after it changes by itself."""

    def __call__(self) -> bytes:
        before, name, rest = super().__call__().partition(b"SigBlk:")[2].partition(b"SigCgt:")
        caught, _, after = rest.partition(b"\n")
        ours = int(caught or b"0", 16) & ~_OF_THE_C_LIBRARY
        return b"%s%s%x\n%s" % (before, name, ours, after.partition(b"voluntary_ctxt")[0])


class _Namespaces:
    """Those that a process can leave; for two of them only its children are in the new one."""

    def __init__(self) -> None:
        self._folder = os.open("/proc/self/ns", os.O_RDONLY)
        self._names = [name for name in os.listdir(self._folder) if name not in _FIXED]

    def __call__(self) -> list[str]:
        return [os.readlink(name, dir_fd=self._folder) for name in self._names]


class _Environment:
    """As programs that are started get it; `os.environ` is a copy."""

    def __init__(self) -> None:
        self._variables = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")

    def __call__(self) -> set[bytes]:
        found, number = set[bytes](), 0
        while (one := self._variables[number]) is not None:
            found.add(one)
            number += 1
        return found


class _Attributes:
    """Whether it ends with its warden, adopts orphans, may be dumped; how late its timers may be."""

    def __init__(self) -> None:
        self._prctl = ctypes.CDLL(None).prctl
        self._said = ctypes.c_int()

    def __call__(self) -> list[int]:
        found: list[int] = []
        for what in (_DEATH_SIGNAL, _SUBREAPER):
            self._prctl(what, ctypes.byref(self._said), 0, 0, 0)
            found.append(self._said.value)
        return [*found, self._prctl(_DUMPABLE, 0, 0, 0, 0), self._prctl(_TIMER_SLACK, 0, 0, 0, 0)]


def _standard() -> list[tuple[int, int, int]]:
    """What is behind descriptors 0, 1 and 2, and how it is read and written."""
    return [(found.st_dev, found.st_ino, fcntl.fcntl(number, fcntl.F_GETFL))
            for number in _STANDARD for found in (os.fstat(number),)]


def _umask() -> int:
    found = os.umask(0o077)
    os.umask(found)
    return found


def _user() -> tuple[Any, ...]:
    return os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups()


def _folder() -> tuple[Any, ...]:
    here, root = os.stat("."), os.stat("/")
    return os.getcwd(), here.st_dev, here.st_ino, root.st_dev, root.st_ino


def _wakeup() -> int:
    """It is read by setting it."""
    return int(_signal.set_wakeup_fd(-1))


_PLAIN: dict[str, Look] = {
    "signal handlers": lambda: list(map(_signal.getsignal, _SIGNALS)),
    "blocked signals": lambda: _signal.pthread_sigmask(signal.SIG_BLOCK, ()),
    "a wakeup descriptor": _wakeup,
    "alarms": lambda: list(map(_signal.getitimer, _ALARMS)),
    "the folder": _folder,
    "the umask": _umask,
    "limits": lambda: list(map(resource.getrlimit, _LIMITS)),
    "the user": _user,
    "standard streams": _standard,
    "the priority": lambda: os.getpriority(os.PRIO_PROCESS, 0),
}


def looks() -> dict[str, Look]:
    """What to compare, by name. They hold descriptors, which are counted among the open files."""
    return {**_PLAIN, **(_of_linux() if _LINUX else {}), "open files": _OpenFiles()}


def _of_linux() -> dict[str, Look]:
    found: dict[str, Look] = {
        "other users": lambda: (os.getresuid(), os.getresgid()),
        "the scheduling": lambda: (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority),
        "the environment of programs": _Environment(),
        "attributes of the process": _Attributes(),
    }
    files = (("signals, rights or processors", lambda: _Status("status")), ("timers", lambda: _File("timers")),
             ("the control group", lambda: _File("cgroup")), ("namespaces", _Namespaces),
             ("the score of memory", lambda: _File("oom_score_adj")))
    for name, opened in files:
        with contextlib.suppress(FileNotFoundError):  # not every kernel is built with all of them
            found[name] = opened()
    return found
