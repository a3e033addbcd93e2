"""Requests to the broker's API: one answer, or a run of answers up to an end status.

On a cluster a stream has no leader for some seconds when its node is lost. What is asked in that time nobody answers,
then or later, so a question that changes nothing is asked again (AGAIN_S): its answer comes soon after there is a
leader, not when the time for the first asking is over. Each asking has an inbox of its own; the first that is answered
whole counts.
"""

import asyncio
from asyncio import Future
from collections.abc import Callable
from typing import Any

import msgspec

from shared.bus import api
from shared.bus.codes import NOT_ENABLED, SILENT, ApiError, error_of
from shared.bus.publisher import ANSWER_S, NOBODY_S
from shared.bus.subject import check_subject
from shared.bus.wire import Connection, pub, status_of
from shared.errors import Refused, Unavailable

AGAIN_S = (1.0, 1.5)  # after which a question to a cluster is asked again
Answer = tuple[bytes, bytes]  # header, payload
_NOT_ENABLED = b'"err_code":%d,' % NOT_ENABLED
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Requests:
    def __init__(self, connection: Connection, inbox: str) -> None:
        self._connection = connection
        self._prefix = inbox + "."
        self._waiting: dict[bytes, tuple[str, Callable[[Answer | Exception], None]]] = {}
        self._count = 0

    async def start(self) -> None:
        await self._connection.route(self._prefix + "*", self._answered)

    async def one(self, subject: str, data: bytes = b"", within_s: float = ANSWER_S) -> Answer:
        return (await self._ask(subject, data, lambda _: True, within_s))[0]

    async def run(self, subject: str, data: bytes) -> list[Answer]:
        """Every answer up to the first with a status (204 ends a batch, 404 says there is none)."""
        return await self._ask(subject, data, lambda answer: status_of(answer[0]) != 0)

    async def api(
        self, subject: str, body: object = None, within_s: float = ANSWER_S, *, again: bool = False
    ) -> dict[str, Any]:
        """A JSON answer of `$JS.API.…`; an error in it is raised. An account without JetStream answers too what it
        asks of another's, that it has none: not what was asked, and it may come first. `again`: to ask twice is as good
        as once, also where it is not a question."""
        payload = b"" if body is None else msgspec.json.encode(body)
        own: list[Answer] = []

        def is_asked(answer: Answer) -> bool:
            own.extend([answer] if _NOT_ENABLED in answer[1] else [])
            return not own or answer is not own[-1]

        try:
            answers = await self._ask(api.subject(subject), payload, is_asked, within_s, again)
        except Unavailable:
            if own:
                read_answer(own[0][1], subject)  # nobody else has answered
            raise
        if status_of(answers[-1][0]) == 503:
            raise Unavailable(f"{SILENT} {subject}")
        return read_answer(answers[-1][1], subject)

    async def of_leader(self, stream: str, body: object) -> dict[str, Any]:
        """The message a stream's leader has."""
        message: dict[str, Any] = (await self.api(api.message_get(stream), body))["message"]
        return message

    def violation(self, subject: str) -> None:
        for _, end in [w for w in self._waiting.values() if w[0] == subject]:
            end(Refused(f"not allowed to request {subject}"))

    def disconnected(self) -> None:
        for subject, end in list(self._waiting.values()):
            end(Unavailable(f"the connection broke before {subject} was answered"))

    async def _ask(
        self, subject: str, data: bytes, is_last: Callable[[Answer], bool], within_s: float = ANSWER_S,
        again: bool = False,
    ) -> list[Answer]:
        """Asked again for a moment if nobody listens: a server that reloads its configuration answers so too."""
        for pause in NOBODY_S:
            answers = await self._ask_once(subject, data, is_last, within_s, again)
            if status_of(answers[0][0]) != 503:
                return answers
            await asyncio.sleep(pause)
        return await self._ask_once(subject, data, is_last, within_s, again)

    async def _ask_once(
        self, subject: str, data: bytes, is_last: Callable[[Answer], bool], within_s: float, again: bool
    ) -> list[Answer]:
        self._connection.check_size(subject, len(data))
        check_subject(subject)
        again = self._connection.is_clustered and (again or api.changes_nothing(subject))
        done: Future[list[Answer]] = asyncio.get_running_loop().create_future()
        tokens: list[bytes] = []
        try:
            async with asyncio.timeout(within_s):
                for wait_s in AGAIN_S if again else ():
                    tokens.append(self._send(subject, data, is_last, done))
                    found, _ = await asyncio.wait({done}, timeout=wait_s)
                    if found:
                        return done.result()
                tokens.append(self._send(subject, data, is_last, done))
                return await done
        except TimeoutError:
            raise Unavailable(f"no answer for {subject} in {within_s} s") from None
        finally:
            for token in tokens:
                del self._waiting[token]

    def _send(
        self, subject: str, data: bytes, is_last: Callable[[Answer], bool], done: "Future[list[Answer]]"
    ) -> bytes:
        self._count += 1
        token = b"%d" % self._count
        answers: list[Answer] = []

        def end(answer: Answer | Exception) -> None:
            if done.done():
                return
            if isinstance(answer, Exception):
                done.set_exception(answer)
                return
            answers.append(answer)
            if is_last(answer):
                done.set_result(answers)

        self._waiting[token] = (subject, end)
        try:
            self._connection.write(pub(subject, self._prefix + str(self._count), data))
        except BaseException:
            del self._waiting[token]
            raise
        return token

    def _answered(self, subject: bytes, _reply: bytes, header: bytes, data: bytes) -> None:
        waiting = self._waiting.get(subject[len(self._prefix) :])
        if waiting is not None:
            waiting[1]((header, data))


def read_answer(data: bytes, subject: str) -> dict[str, Any]:
    try:
        answer = _decode(data)
        error = msgspec.convert(answer["error"], ApiError) if "error" in answer else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as unread:
        raise Unavailable(f"an answer that cannot be read for {subject}: {unread}") from None
    if error is not None:
        raise error_of(error, subject)
    return answer
