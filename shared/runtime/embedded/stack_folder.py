"""A stack's folder: its own, one stack at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.errors import Refused


@contextmanager
def held(folder: Path) -> Iterator[Path]:
    """Two stacks on one store would write over each other, so the folder is locked while in use.

    The lock belongs to the process: it is gone when the process is, however it ended.
    """
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)  # histories, logs and passwords: nobody else's business
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(handle, 32, 0).decode().strip() or "another process"
            raise Refused(f"{folder} is in use by process {owner}: stop it, or give another --folder") from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield folder
    finally:
        os.close(handle)
