"""What a dead worker held is issued again at once, by the one who looks after its execution: nobody waits for the
lease. `lives.py` says who is dead."""

import asyncio
from collections.abc import Callable, Sequence

import structlog
from msgspec import Struct

from services.scheduler.liveness import CLOSED_S, Gone, Lives
from services.scheduler.reissue import Again
from shared.bus.ports import Clock
from shared.errors import NoetlError
from shared.events.beat import Beat, Key
from shared.events.command import Command, key_of
from shared.runtime.service.background import Tasks

log = structlog.get_logger()
RETRY_S = 0.5
GIVE_UP_S = 10.0  # by then the lease is almost over, and that brings it back too
Known = Sequence[Command] | None  # the commands due of an execution; None: it is being loaded, or not looked after


class _Lost(Struct):
    pool: str
    seq: int
    until: float


class Takeover:
    """`known` says what is due of an execution."""

    def __init__(self, clock: Clock, known: Callable[[str], Known], again: Again) -> None:
        self._clock, self._known, self._again = clock, known, again
        self._lives = Lives()
        self._lost: dict[Key, _Lost] = {}
        self._wake = asyncio.Event()
        self._closing = Tasks()

    def heard(self, worker: str, beat: Beat) -> None:
        self._take(self._lives.heard(worker, beat))

    def ended(self, worker: str) -> None:
        self._take(self._lives.ended(worker))

    def closed(self, worker: str) -> None:
        if self._lives.mark(worker) is not None:
            self._closing.start(self._wait(worker))

    async def _wait(self, worker: str) -> None:
        mark = self._lives.mark(worker)
        await self._clock.sleep(CLOSED_S)
        if self._lives.mark(worker) is mark:
            self._take(self._lives.ended(worker, "its connection closed"))

    def listened(self, seconds: float) -> None:
        for gone in self._lives.listened(seconds):
            self._take(gone)

    def _take(self, gone: Gone | None) -> None:
        if gone is None:
            return
        log.warning("worker.gone", worker=gone.worker, why=gone.why, held=len(gone.runs))
        until = self._clock.now() + GIVE_UP_S
        self._lost |= {key: _Lost(gone.pool, seq, until) for key, seq in gone.runs.items()}
        self._wake.set()

    async def run(self) -> None:
        """For ever; cancel to stop."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._lost:
                    await self._look()
                    if self._lost:
                        await self._clock.sleep(RETRY_S)
        finally:
            self._closing.cancel()

    async def _look(self) -> None:
        now, due, later = self._clock.now(), list[tuple[Command, int]](), dict[Key, _Lost]()
        taken, self._lost = self._lost, {}
        for execution_id in {key[0] for key in taken}:
            commands = self._known(execution_id)
            if commands is None:
                later |= {key: lost for key, lost in taken.items() if key[0] == execution_id and lost.until > now}
                continue
            wanted = {key_of(command): command for command in commands}
            due += [  # what a worker said of another pool's runs is not so
                (wanted[key], lost.seq) for key, lost in taken.items()
                if key in wanted and wanted[key].pool == lost.pool
            ]
        due = [each for each in due if not self._lives.holds(each[0].pool, key_of(each[0]))]
        try:
            count = await self._again.issue(due)
        except NoetlError as error:
            log.warning("takeover.waits", error=str(error))
            later |= {key: taken[key] for item, _ in due if taken[key := key_of(item)].until > now}
        else:
            if count:
                log.warning("worker.taken_over", issued_again=count)
        self._lost = {**later, **self._lost}
