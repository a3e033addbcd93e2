"""What a call of `kind: python` can leave in its process for the next one to see, as far as it costs little to tell.
A process in which anything was left is not used again."""

import _locale
import _signal  # type: ignore[import-not-found]  # signal's own functions make enums of all they return
import _thread
import gc
import logging
import os
import resource
import signal
import socket
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from shared.tools.base import warden
from shared.tools.python import code as python_code

Look = Callable[[], Any]
_SIGNALS = [int(number) for number in signal.Signals]
_LIMITS = (resource.RLIMIT_CPU, resource.RLIMIT_AS)
_DESCRIPTORS = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"


class _OpenFiles:
    """How many there are; newer kernels say it without a list of them."""

    def __init__(self) -> None:
        self._folder = os.open(_DESCRIPTORS, os.O_RDONLY)

    def __call__(self) -> int:
        return os.fstat(self._folder).st_size or len(os.listdir(_DESCRIPTORS))


def _umask() -> int:
    found = os.umask(0o077)
    os.umask(found)
    return found


def _standard() -> tuple[int, int]:
    found = os.fstat(1)
    return found.st_dev, found.st_ino


def _interpreter() -> tuple[Any, ...]:
    return (sys.gettrace(), sys.getprofile(), sys.getrecursionlimit(), sys.getswitchinterval(), gc.isenabled(),
            gc.get_threshold(), socket.getdefaulttimeout(), _locale.setlocale(_locale.LC_ALL, None))


def _logging() -> tuple[Any, ...]:
    root = logging.root
    return list(root.handlers), root.level, root.manager.disable, logging.raiseExceptions


LOOKS: dict[str, Look] = {
    "builtins": lambda: len(python_code.changed),
    "sys": lambda: vars(sys),
    "import paths": lambda: (list(sys.path), list(sys.meta_path), list(sys.path_hooks)),
    "signal handlers": lambda: list(map(_signal.getsignal, _SIGNALS)),
    "blocked signals": lambda: _signal.pthread_sigmask(signal.SIG_BLOCK, ()),
    "alarms": lambda: _signal.getitimer(signal.ITIMER_REAL),
    "the folder": os.getcwd,
    "the environment": lambda: (dict(os.environ._data), os.environ.__class__),  # type: ignore[attr-defined]
    "the umask": _umask,
    "limits": lambda: [resource.getrlimit(number) for number in _LIMITS],
    "standard output": _standard,
    "the interpreter": _interpreter,
    "log handlers": _logging,
    "threads": _thread._count,
}


class Leftovers:
    """As things are when it is made, before any call."""

    def __init__(self) -> None:
        self._forks = 0
        looks: dict[str, Look] = {**LOOKS, "open files": _OpenFiles()}
        self._looks = [(name, look, _kept(look())) for name, look in looks.items()]
        self._modules = dict(sys.modules)
        os.register_at_fork(after_in_parent=self._forked)

    def _forked(self) -> None:
        self._forks += 1

    def found(self) -> str:
        """What a call left behind; empty: nothing."""
        try:
            return next(self._differences(), "")
        except Exception as error:  # something was replaced that looking needs
            return f"{type(error).__name__} on looking"

    def _differences(self) -> Iterator[str]:
        if self._forks:
            yield "a copy of the process"
        if warden.has_children():
            yield "processes"
        for name, look, before in self._looks:
            if look() != before:
                yield name
        if sys.modules != self._modules:
            yield from self._changed_modules()

    def _changed_modules(self) -> Iterator[str]:
        """Those imported since are fine, also what a package puts beside itself while it is imported."""
        known, now = self._modules, dict(sys.modules)
        for name, module in known.items():
            if now.get(name) is not module:
                yield f"sys.modules[{name!r}]"
        for name, module in now.items():
            if name not in known and not _imported(name, module) and (
                    (top := name.partition(".")[0]) in known or not _imported(top, now.get(top))):
                yield f"sys.modules[{name!r}]"
        self._modules = now


def _kept(found: Any) -> Any:
    return dict(found) if isinstance(found, dict) else found


def _imported(name: str, module: Any) -> bool:
    spec = getattr(module, "__spec__", None)
    return isinstance(module, types.ModuleType) and spec is not None and spec.name == name
