"""Whether an embedded broker that runs also works. After a full disk it does not write again by itself, however much
space there is; and a limit that was set when little was free stays as it was. Both end with a restart, which is worth
it as soon as there is room."""

import asyncio
import time

import msgspec
import structlog

from shared.runtime.embedded import store_limit
from shared.runtime.embedded.nats_server import HOST, NatsServer
from shared.runtime.embedded.store_limit import MIB

EVERY_S = 2.0
MEASURE_EVERY_S = 30.0  # its files are counted
ASK_S = 5.0
SAY_EVERY_S = 30.0
MAX_ANSWER_BYTES = 65_536
NEARLY = 0.90  # of the limit
WORTH_IT = 1.10  # the new limit over the old one

log = structlog.get_logger()


class BrokerWatch:
    def __init__(self, server: NatsServer) -> None:
        self._server = server
        self._said = 0.0
        self._measured = time.monotonic()

    async def look(self) -> str:
        """Why the server is to be restarted now, or nothing."""
        error = await write_error(self._server.monitor_port)
        if not error and time.monotonic() - self._measured < MEASURE_EVERY_S:
            return ""
        self._measured = time.monotonic()
        room = await asyncio.to_thread(store_limit.look, self._server.store)
        if error:
            self._say(error, room)
            return f"it does not write any more ({error}), and there is room again" if has_room(room) else ""
        if is_cramped(room, self._server.max_file_store):
            return f"{room.limit // MIB} MiB are there for it now, it was given {self._server.max_file_store // MIB}"
        return ""

    def _say(self, error: str, room: store_limit.Room) -> None:
        now = time.monotonic()
        if now - self._said > SAY_EVERY_S:
            self._said = now
            text = f"the broker's disk is full: {room.free // MIB} MiB free at {self._server.store}. Make room there"
            log.error("stack.disk_full", error=text, broker=error)


def has_room(room: store_limit.Room) -> bool:
    return room.free >= room.reserve // 2


def is_cramped(room: store_limit.Room, limit: int) -> bool:
    return room.used >= limit * NEARLY and room.limit >= limit * WORTH_IT


async def write_error(port: int) -> str:
    """What `/healthz` says about a stream that cannot be written. A server that does not answer is another matter."""
    try:
        async with asyncio.timeout(ASK_S):
            reader, writer = await asyncio.open_connection(HOST, port)
            try:
                writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
                answer = await reader.read(MAX_ANSWER_BYTES)
            finally:
                writer.close()
        found = msgspec.json.decode(answer.partition(b"\r\n\r\n")[2], type=dict[str, object])
    except (OSError, TimeoutError, msgspec.MsgspecError):
        return ""
    error = str(found.get("error", ""))
    return error if "write error" in error else ""
