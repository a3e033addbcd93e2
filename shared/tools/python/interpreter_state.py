"""What the interpreter keeps from one call of `kind: python` to the next, as far as it costs little to read."""

import _locale
import _thread
import decimal
import faulthandler
import gc
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from shared.tools.python import code as python_code

Look = Callable[[], Any]
_MONITORS = range(6)  # ids of tools that sys.monitoring has
_monitoring = getattr(sys, "monitoring", None)


class _AuditHooks:
    """How many were added after this one: there is no list of them, and none can be removed."""

    def __init__(self) -> None:
        self._added = 0
        sys.addaudithook(self._heard)

    def _heard(self, event: str, _given: tuple[Any, ...]) -> None:
        if event == "sys.addaudithook":
            self._added += 1

    def __call__(self) -> int:
        return self._added


def _settings() -> tuple[Any, ...]:
    return (sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits(), sys.getdlopenflags(),
            sys.get_asyncgen_hooks(), sys.get_coroutine_origin_tracking_depth(), socket.getdefaulttimeout(),
            _locale.setlocale(_locale.LC_ALL, None), repr(decimal.DefaultContext), faulthandler.is_enabled())


def _tracers() -> tuple[Any, ...]:
    return (sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile(), threading.excepthook,
            _monitoring and [_monitoring.get_tool(number) for number in _MONITORS])


def _collector() -> tuple[Any, ...]:
    return gc.isenabled(), gc.get_threshold(), gc.get_debug(), list(gc.callbacks)


def _logging() -> tuple[Any, ...]:
    root = logging.root
    return list(root.handlers), root.level, root.manager.disable, logging.raiseExceptions


_PLAIN: dict[str, Look] = {
    "builtins": lambda: len(python_code.changed),
    "sys": lambda: vars(sys),
    "import paths": lambda: (list(sys.path), list(sys.meta_path), list(sys.path_hooks), list(sys.argv)),
    "the environment": lambda: (dict(os.environ._data), os.environ.__class__),  # type: ignore[attr-defined]
    "the time zone": lambda: (time.tzname, time.timezone, time.altzone, time.daylight),
    "the interpreter": _settings,
    "tracers": _tracers,
    "the garbage collector": _collector,
    "log handlers": _logging,
    "threads": lambda: (_thread._count(), _thread.stack_size()),
}


def looks() -> dict[str, Look]:
    """What to compare, by name."""
    return {**_PLAIN, "audit hooks": _AuditHooks()}
