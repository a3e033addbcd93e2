"""Keeps what a service knows out of reach of other processes of the same user, such as the tasks it runs."""

import ctypes
import resource
import sys

DUMPABLE = 4  # of prctl(2)


def protect() -> None:
    """No core dump, and on Linux nobody but root looks into this process: its memory, environment and descriptors.
    Programs that it starts are ordinary again."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DUMPABLE, 0, 0, 0, 0)
