"""Questions to a cluster: one that nobody answers, because its stream has no leader at the moment, is asked again."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from shared.bus.api_requests import Requests
from shared.errors import Unavailable

END = b"NATS/1.0 204 EOB\r\n\r\n"


class Broker:
    """A connection whose broker answers what comes after the first `deaf` requests."""

    def __init__(self, deaf: int, clustered: bool = True, answers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        self.deaf, self.is_clustered, self.answers = deaf, clustered, answers or ((b"", b'{"seq":1}'),)
        self.asked: list[str] = []

    async def route(self, _subject: str, arrived: Callable[[bytes, bytes, bytes, bytes], None]) -> None:
        self._arrived = arrived

    def check_size(self, _subject: str, _size: int) -> None:
        pass

    def write(self, data: bytes) -> None:
        _, subject, reply, *_ = data.split(b" ")
        self.asked.append(subject.decode())
        if len(self.asked) > self.deaf:
            self.answer(reply)

    def answer(self, reply: bytes) -> None:
        for header, body in self.answers:
            asyncio.get_running_loop().call_soon(self._arrived, reply, b"", header, body)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.bus.api_requests.AGAIN_S", (0.01, 0.02))


async def requests_to(broker: Broker) -> Requests:
    requests = Requests(cast(Any, broker), "_INBOX.x")
    await requests.start()
    return requests


@pytest.mark.parametrize("question", ["STREAM.INFO.S", "STREAM.MSG.GET.S", "CONSUMER.INFO.S.c", "INFO"])
async def test_what_a_stream_without_a_leader_does_not_answer_is_asked_again(question: str) -> None:
    broker = Broker(deaf=2)
    assert await (await requests_to(broker)).api(question) == {"seq": 1}
    assert broker.asked == [f"$JS.API.{question}"] * 3


@pytest.mark.parametrize(("question", "clustered"), [("STREAM.PURGE.S", True), ("STREAM.MSG.DELETE.S", True),
                                                     ("CONSUMER.DELETE.S.c", True), ("STREAM.INFO.S", False)])
async def test_what_changes_something_is_asked_once_and_so_is_one_server(question: str, clustered: bool) -> None:
    broker = Broker(deaf=1, clustered=clustered)
    with pytest.raises(Unavailable, match=r"no answer for \S+ in 0.1 s"):
        await (await requests_to(broker)).api(question, within_s=0.1)
    assert len(broker.asked) == 1


async def test_the_answers_of_two_askings_are_not_mixed() -> None:
    """The first page of the first asking comes late, together with the whole of the second."""
    late: list[bytes] = []

    class Late(Broker):
        def write(self, data: bytes) -> None:
            late.append(data.split(b" ")[2])
            super().write(data)

        def answer(self, reply: bytes) -> None:
            self._arrived(late[0], b"", b"NATS/1.0\r\nA: b\r\n\r\n", b"1")
            super().answer(reply)

    broker = Late(deaf=1, answers=((b"NATS/1.0\r\nA: b\r\n\r\n", b"1"), (END, b"")))
    found = await (await requests_to(broker)).run("$JS.API.DIRECT.GET.S", b"{}")
    assert [body for _, body in found] == [b"1", b""]
