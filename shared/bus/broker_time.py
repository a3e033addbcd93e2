"""What time it is by the broker: every answer about a stream says so."""

import msgspec
from msgspec import Struct

from shared.bus import api, topology
from shared.bus.api_requests import Requests
from shared.errors import Unavailable
from shared.events import subjects
from shared.events.stamp import seconds

NO_JETSTREAM = 10039  # this account has none: a pool's, which has the question under another name


class _Failure(Struct):
    err_code: int = 0
    description: str = ""


class _Told(Struct):
    ts: str = ""
    error: _Failure | None = None


class Timekeeper:
    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._subject = api.subject(api.stream_info(topology.TIMEKEEPER))

    async def time(self) -> float:
        told = await self._ask()
        if told.error is not None and told.error.err_code == NO_JETSTREAM and self._subject != subjects.TIME:
            self._subject = subjects.TIME
            told = await self._ask()
        try:
            return seconds(told.ts)
        except ValueError:
            why = told.error and told.error.description
            raise Unavailable(f"the broker does not say what time it is: {why}") from None

    async def _ask(self) -> _Told:
        _, data = await self._requests.one(self._subject)
        try:
            return msgspec.json.decode(data, type=_Told) if data else _Told()
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Unavailable(f"an answer about the time that cannot be read: {error}") from None
