"""One NATS connection as a relay stage uses it: appends that do not wait for each other, and pulls
that are acknowledged only once what they caused is stored."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import nats
from msgspec import Struct
from nats.aio.msg import Msg

PULL = 128  # messages of one pull request; two are kept open
CONNECT_S = 10.0
PULL_EXPIRES_NS = 30_000_000_000

Stored = asyncio.Future[int]  # the sequence an append got
React = Callable[[Msg], Awaitable[Sequence[Stored]]]


class Server(Struct, frozen=True):
    """Where the broker is, and who we are there."""

    url: str
    user: str = ""
    password: str = ""

    async def connect(self) -> nats.NATS:
        who = {"user": self.user, "password": self.password} if self.user else {}
        try:
            async with asyncio.timeout(CONNECT_S):
                return await nats.connect(self.url, ping_interval=5, max_reconnect_attempts=-1, **who)
        except TimeoutError:
            raise SystemExit(f"no answer from {self.url} in {CONNECT_S} s") from None


class _Ack(Struct):
    seq: int = 0
    error: dict[str, Any] | None = None


_ack = msgspec.json.Decoder(_Ack)


class Wire:
    def __init__(self, nc: nats.NATS) -> None:
        self.nc = nc
        self._inbox = nc.new_inbox()
        self._cut = len(self._inbox) + 1
        self._open: dict[str, Stored] = {}
        self._sent = 0
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def open(cls, server: Server) -> "Wire":
        wire = cls(await server.connect())
        await wire.nc.subscribe(f"{wire._inbox}.*", cb=wire._answered)
        return wire

    async def _answered(self, msg: Msg) -> None:
        stored = self._open.pop(msg.subject[self._cut :])
        ack = _ack.decode(msg.data)
        if ack.error is None:
            stored.set_result(ack.seq)
        else:
            stored.set_exception(RuntimeError(f"append refused: {ack.error}"))

    async def append(self, subject: str, data: bytes, headers: dict[str, str] | None = None) -> Stored:
        """Written in order; the future gives the sequence once the broker has stored it."""
        self._sent += 1
        key = str(self._sent)
        stored = self._open[key] = self._loop.create_future()
        await self.nc.publish(subject, data, f"{self._inbox}.{key}", headers)
        return stored

    async def serve(self, stream: str, durable: str, react: React) -> None:
        """Gives every message of the consumer to `react`, for ever."""
        ask = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}"
        request = msgspec.json.encode({"batch": PULL, "expires": PULL_EXPIRES_NS})
        inbox, credit = self.nc.new_inbox(), 0
        acks, ready = [], asyncio.Event()

        def settle(reply: str, stored: Sequence[Stored]) -> None:
            for each in stored:
                each.result()
            acks.append(reply)
            ready.set()

        async def arrived(msg: Msg) -> None:
            nonlocal credit
            over = msg.headers and msg.headers.get("Status")
            credit -= int(msg.headers.get("Nats-Pending-Messages", PULL)) if over else 1
            if credit <= PULL:
                credit += PULL
                await self.nc.publish(ask, request, inbox)
            if over:
                return
            stored = await react(msg)
            if len(stored) == 1:
                stored[0].add_done_callback(lambda _: settle(msg.reply, stored))
            elif stored:
                asyncio.gather(*stored).add_done_callback(lambda _: settle(msg.reply, stored))
            else:
                settle(msg.reply, stored)

        await self.nc.subscribe(inbox, cb=arrived)
        for _ in range(2):
            credit += PULL
            await self.nc.publish(ask, request, inbox)
        while True:
            await ready.wait()
            ready.clear()
            batch, acks[:] = acks[:], []
            for reply in batch:
                await self.nc.publish(reply, b"+ACK")
