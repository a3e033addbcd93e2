"""Starts executions and sees them end on the log. The engine and the relay are driven and timed by
this same code; only the message that starts an execution differs."""

import asyncio
import time
from collections.abc import Mapping, Sequence

from msgspec import Struct
from nats.aio.msg import Msg

from benchmarks.wire import Server, Wire
from shared.events.record import Kept

END_TIMEOUT_S = 180.0

Starts = Mapping[str, tuple[str, bytes]]  # execution id: the subject and data that start it


class Run(Struct, frozen=True):
    """`wall_s` from the first start to the last end, `each_s` of every execution by itself,
    `records` what was seen on the log, for checks after the clock has stopped."""

    wall_s: float
    each_s: list[float]
    records: list[Kept]


class Driver:
    def __init__(self, wire: Wire, ends: Sequence[bytes]) -> None:
        self._wire, self._ends = wire, ends
        self._began: dict[str, float] = {}
        self._each: list[float] = []
        self._records: list[Kept] = []
        self._awaited = 0
        self._over = asyncio.Event()

    @classmethod
    async def open(cls, server: Server, watch: Sequence[str], ends: Sequence[bytes]) -> "Driver":
        """`watch` are subjects `<a>.<b>.<partition>.<execution id>.<writer>`; a record that holds one
        of `ends` is the end of its execution."""
        driver = cls(await Wire.open(server), ends)
        for subject in watch:
            await driver._wire.nc.subscribe(subject, cb=driver._seen)
        await driver._wire.nc.flush()
        return driver

    async def close(self) -> None:
        await self._wire.nc.close()

    async def _seen(self, msg: Msg) -> None:
        now = time.perf_counter()
        self._records.append(Kept(msg.subject, msg.data))
        if not any(end in msg.data for end in self._ends):
            return
        began = self._began.pop(msg.subject.split(".")[3], None)
        if began is None:
            return  # of an earlier run
        self._each.append(now - began)
        self._awaited -= 1
        if not self._awaited:
            self._over.set()

    async def burst(self, starts: Starts) -> Run:
        """All at once."""
        self._reset()
        start = time.perf_counter()
        await self._start(starts)
        return self._result(start, time.perf_counter())

    async def one_by_one(self, starts: Starts) -> Run:
        """Each after the end of the one before."""
        self._reset()
        start = time.perf_counter()
        for eid, how in starts.items():
            await self._start({eid: how})
        return self._result(start, time.perf_counter())

    def _reset(self) -> None:
        self._each, self._records, self._awaited = [], [], 0

    async def _start(self, starts: Starts) -> None:
        self._awaited = len(starts)
        self._over.clear()
        stored = []
        for eid, (subject, data) in starts.items():
            self._began[eid] = time.perf_counter()
            stored.append(await self._wire.append(subject, data))
        await asyncio.gather(*stored)
        try:
            async with asyncio.timeout(END_TIMEOUT_S):
                await self._over.wait()
        except TimeoutError:
            missing = f"{self._awaited} of {len(starts)} executions"
            raise SystemExit(f"{missing} did not end within {END_TIMEOUT_S} s") from None

    def _result(self, start: float, end: float) -> Run:
        return Run(end - start, self._each, self._records)
