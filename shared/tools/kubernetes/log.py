"""What a container wrote, of any length, in bounded memory: its beginning and its end."""

from collections import deque

from shared import left_out

LOG_HEAD = 256 * 1024
LOG_TAIL = 768 * 1024
LOG_READ = 64 * 1024 * 1024  # bytes of one log that are read at all


class Log:
    def __init__(self) -> None:
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._kept = 0
        self._read = 0
        self._left_out = 0

    def add(self, part: bytes) -> bool:
        """False: that is enough."""
        self._read += len(part)
        room = LOG_HEAD - len(self._head)
        self._head += part[:room]
        if rest := part[room:]:
            self._tail.append(rest)
            self._kept += len(rest)
        while self._kept > LOG_TAIL:
            first, over = self._tail.popleft(), self._kept - LOG_TAIL
            gone = min(len(first), over)
            if gone < len(first):
                self._tail.appendleft(first[gone:])
            self._kept, self._left_out = self._kept - gone, self._left_out + gone
        return self.ended

    @property
    def ended(self) -> bool:
        """Whether its end was read."""
        return self._read < LOG_READ

    @property
    def cut(self) -> bool:
        return self._left_out > 0 or not self.ended

    def text(self) -> str:
        tail = b"".join(self._tail)
        if not self._left_out:
            return (bytes(self._head) + tail).decode("utf-8", "replace")
        head, rest = self._head.decode("utf-8", "replace"), tail.decode("utf-8", "replace")
        return left_out.between(head, self._left_out, rest)
