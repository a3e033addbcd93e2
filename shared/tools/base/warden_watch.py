"""Whether the code of a call has signalled the wardens above it. A call that has does not answer: one that ends or is
stopped ends the process, and would take the next call with it."""

import os
import sys
import time

ASLEEP, STOPPED = b"S", b"T"  # as a warden is unless something happens to it; and what only a signal makes it
NONE_PENDING = b"ShdPnd:\t0000000000000000\n"
WITHIN_S = 5.0          # for the wardens to be what they were, or for one to end this process
LOOK_S = 0.001
SIZE = 4096             # bytes, more than the system says of one process


class Keepers:
    """The one above this process, and the one above that."""

    def __init__(self, inner: int, outer: int) -> None:
        self._inner, self._outer = _Keeper(inner), _Keeper(outer)

    def check(self) -> None:
        """Returns if both are well. Signalled, one ends, and this process with it; nobody but us looks whether the
        outer one is stopped."""
        until = time.monotonic() + WITHIN_S
        while not (self._inner.well() and self._outer.well()):
            stopped = self._outer.state() == STOPPED
            if stopped:
                os.write(2, b"its warden was stopped\n")
            if stopped or time.monotonic() > until:
                os._exit(1)
            time.sleep(LOOK_S)


class _Keeper:
    def __init__(self, pid: int) -> None:
        self._files = [os.open(f"/proc/{pid}/{name}", os.O_RDONLY) for name in ("status", "stat")] \
            if sys.platform == "linux" else []

    def well(self) -> bool:
        """A signal is pending until it is seen to, and from then on the state tells: the order matters."""
        try:
            return not self._files or (NONE_PENDING in os.pread(self._files[0], SIZE, 0) and self.state() == ASLEEP)
        except OSError:  # it is gone
            return False

    def state(self) -> bytes:
        try:
            return os.pread(self._files[1], SIZE, 0).rpartition(b")")[2].split(None, 1)[0]
        except OSError:
            return b""
