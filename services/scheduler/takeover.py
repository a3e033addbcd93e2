"""What a dead worker held is issued again at once, without waiting for its leases to run out.

1. `liveness.py` says who is dead. Being wrong is harmless: a worker that lives is fenced by the higher epoch of the new
   command, and a call is repeated. So a takeover needs no agreement between schedulers.
2. A worker's last beat names what it held, with the sequence of each message. A command is issued again if the log says
   it is due, it belongs to the worker's pool, and no live worker of that pool says it holds it. The beat alone decides
   nothing: a worker may claim to hold anything.
3. Only the scheduler that owns the execution acts. One that is loading it, or may be about to own it because its owner
   died as well, tries again until GIVE_UP_S; by then the leases are almost over, and the broker delivers again.
4. The replaced message is named by its sequence (`reissue.py`): if the queue holds another message of the run by then,
   somebody was faster, and nothing is done.
"""

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
GIVE_UP_S = 10.0  # by then the lease is almost over, and its end brings the command back too
Known = Sequence[Command] | None  # the commands of an execution that are due; None: it is being loaded, or not owned


class _Lost(Struct):
    pool: str
    seq: int
    until: float


class Takeover:
    """`known` gives the commands of an execution that are due."""

    def __init__(self, clock: Clock, known: Callable[[str], Known], again: Again) -> None:
        self._clock, self._known, self._again = clock, known, again
        self._lives = Lives()
        self._lost: dict[Key, _Lost] = {}
        self._wake = asyncio.Event()
        self._closing = Tasks()
        self.count = 0  # of workers that were gone with runs in their hands

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
        self.count += 1
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
            due += [  # a worker cannot have held what belongs to another pool
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
