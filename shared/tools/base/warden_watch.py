"""Whether the code of a call has touched the warden above it. A call that leaves processes and has signalled the one
who is to end them does not answer."""

import os
import sys
import time

from shared.tools.base import warden

ASLEEP = b"S"           # as a warden is unless something happens to it
NONE_PENDING = b"ShdPnd:\t0000000000000000\n"
WITHIN_S = 5.0          # for the warden to be what it was, or for the one above it to end it, and us
SIZE = 4096             # bytes, more than the system says of one process


class Keeper:
    def __init__(self, pid: int) -> None:
        self._files = [os.open(f"/proc/{pid}/{name}", os.O_RDONLY) for name in ("status", "stat")] \
            if sys.platform == "linux" else []

    def check(self) -> None:
        """Returns if it is well. Signalled, it ends, and this process with it."""
        until = time.monotonic() + WITHIN_S
        while self._files and not self._well():
            if time.monotonic() > until:
                os._exit(1)
            time.sleep(warden.LOOK_S)

    def _well(self) -> bool:
        """A signal is pending until it is seen to, and from then on the state tells: the order matters."""
        status, stat = self._files
        try:
            return NONE_PENDING in os.pread(status, SIZE, 0) and \
                os.pread(stat, SIZE, 0).rpartition(b")")[2].split(None, 1)[0] == ASLEEP
        except OSError:  # it is gone
            return False
