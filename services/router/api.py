"""Requests by request and reply: `nc.request("noetl.api.execute", …)` is answered with the engine's answer.

JetStream takes the reply subject of a message that it stores for its own confirmation. So a router hears what is asked
here, stores it as a request whose header names the caller's inbox, and whichever router takes the request answers.
Nothing is kept in between. One of the routers hears each call; while none does, the broker tells the caller so.
"""

import msgspec
import structlog

from services.router.refusals import is_inbox
from shared.bus.ports import Bus, Clock, Message
from shared.errors import NoetlError, Refused
from shared.events import subjects
from shared.events.failure import CAPACITY, REQUEST, Failure
from shared.events.headers import REPLY_TO, REQUEST_ID, request_id
from shared.runtime.service.background import Tasks

log = structlog.get_logger()
GROUP = "router"
RETRY_S = 1.0
MOST = 256  # calls on their way to the queue of requests


class Api:
    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus, self._clock = bus, clock
        self._calls = Tasks()

    async def run(self) -> None:
        """For ever; cancel to stop."""
        try:
            while True:
                try:
                    await self._hear()
                except NoetlError as error:
                    log.warning("api.waits", error=str(error))
                    await self._clock.sleep(RETRY_S)
        finally:
            await self._calls.stop()

    async def _hear(self) -> None:
        inbox = await self._bus.subscribe(f"{subjects.API}.*", group=GROUP)
        try:
            while True:
                call = await inbox.message()
                await self._calls.room(MOST)
                self._calls.start(self.take(call))
        finally:
            await inbox.close()

    async def take(self, call: Message) -> None:
        verb = call.subject.rpartition(".")[2]
        subject = subjects.VERBS.get(verb)
        if subject is None:
            await self._refuse(call, REQUEST, f"{subjects.API} has {subjects.ALL_VERBS}")
            return
        try:
            await self._bus.append(subject, call.data, headers=_headers(call))
        except Refused as error:
            await self._refuse(call, REQUEST, str(error))
        except NoetlError as error:  # it may be stored: the caller asks again, under the same id
            await self._refuse(call, CAPACITY, f"the queue of requests does not take it: {error}")

    async def _refuse(self, call: Message, kind: str, reason: str) -> None:
        log.warning("api.refused", subject=call.subject, error=reason)
        if is_inbox(call.reply):
            answer = {"execution_id": "", "status": "failed", "error": Failure(kind, reason).error()}
            try:
                await self._bus.publish(call.reply, msgspec.json.encode(answer))
            except NoetlError as error:  # the caller can ask again
                log.warning("api.unanswered", error=str(error))


def _headers(call: Message) -> dict[str, str]:
    """Its id in a header of our own: a caller that asks again wants an answer, and the broker would drop a second
    message of the same id."""
    own = request_id(call.headers)
    return {**({REPLY_TO: call.reply} if call.reply else {}), **({REQUEST_ID: own} if own else {})}
