"""Places of keys that many executions share: asks for them in the ledgers of the keys, writes each grant to its
execution's log, and gives back the places of what is over.

A ledger is an entry of `noetl_limits`, settled by compare-and-set (`shared/engine/scheduling/limit_ledger.py`). It
follows from the logs: a grant that did not reach its log is written again, a holder whose run is over by its log is
struck out, and the holders of a ledger that was lost are entered again.
"""

import asyncio
from collections.abc import Callable, Collection

import structlog

from shared.bus import kv, topology
from shared.bus.ports import Bus, Clock
from shared.engine.scheduling import limit_ledger
from shared.engine.scheduling.limit_ledger import Ledger
from shared.engine.scheduling.limits import Want, holder
from shared.engine.scheduling.messages import Free
from shared.errors import Conflict, NoetlError
from shared.events import model as ev
from shared.events import subjects
from shared.events.headers import KV_OPERATION
from shared.events.record import Record, encode
from shared.events.run_index import is_iteration
from shared.events.stamp import stamp
from shared.runtime.stores.execution_status import standing

log = structlog.get_logger()
RETRY_S = 0.5
TELL_AGAIN_S = 3.0  # a grant that its log does not show by then is written again
SUSPECT_S = 5.0  # then a holder that is unknown here is looked up in its log
SWEEP_S = 10.0
MAX_TRIES = 50  # at one ledger, while others write it too
# Whether a holder's run is live: None when the execution is not in memory here; asking brings it there.
Knows = Callable[[str, str], bool | None]


class Limits:
    """`owns(execution_id)`: this scheduler looks after it; `others()`: the schedulers that are alive."""

    def __init__(
        self, bus: Bus, clock: Clock, instance: str, partitions: int,
        owns: Callable[[str], bool], others: Callable[[], Collection[str]], knows: Knows,
    ) -> None:
        self._bus, self._clock, self._me, self._partitions = bus, clock, instance, partitions
        self._owns, self._others, self._knows = owns, others, knows
        self._keys: dict[str, dict[str, Want]] = {}
        self._of: dict[str, dict[str, str]] = {}
        self._gone: dict[str, set[str]] = {}
        self._told: dict[str, float] = {}
        self._late: dict[str, list[tuple[float, float]]] = {}  # of a key with a rate: when given, when written
        self._suspects: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._untidy: set[str] = set()
        self._wake = asyncio.Event()
        self._swept = clock.now()

    def take(self, want: Want) -> None:
        """A place is wanted, or held as its log says."""
        key = want.limit.key
        self._gone.get(key, set()).discard(want.holder)
        known = self._keys.setdefault(key, {}).get(want.holder)
        self._keys[key][want.holder] = want
        self._of.setdefault(want.execution_id, {})[want.holder] = key
        if known is None or not want.granted or not known.granted:
            self._settle_soon(key)

    def free(self, free: Free) -> None:
        places = self._of.get(free.execution_id)
        if not places:
            return
        if free.run_id and free.index is not None and is_iteration(free.index):
            self._end(free.execution_id, [holder(free.execution_id, f"{free.run_id}.{free.index}")])
        elif free.run_id:
            whole = holder(free.execution_id, free.run_id)
            self._end(free.execution_id, [who for who in places if who == whole or who.startswith(f"{whole}.")])
        else:
            self._end(free.execution_id, list(places))

    def _end(self, execution_id: str, whose: list[str]) -> None:
        places = self._of[execution_id]
        for who in whose:
            key = places.pop(who, None)
            if key is None:
                continue
            self._keys[key].pop(who, None)
            self._told.pop(who, None)
            self._gone.setdefault(key, set()).add(who)
            self._settle_soon(key)
        if not places:
            del self._of[execution_id]

    def _settle_soon(self, key: str, at: float = 0.0) -> None:
        if self._due.get(key, float("inf")) > at:
            self._due[key] = at
            self._wake.set()

    async def hear(self) -> None:
        """Other schedulers change ledgers that matter here."""
        inbox = await self._bus.subscribe(kv.changes_of(topology.LIMITS))
        try:
            while True:
                message = await inbox.message()
                key = kv.decode_key(kv.key_of(topology.LIMITS, message.subject))
                if self._is_concerned(key, limit_ledger.decode(message.data) if message.data else Ledger()):
                    self._settle_soon(key)
        finally:
            await inbox.close()

    def _is_concerned(self, key: str, found: Ledger) -> bool:
        """Some run here waits, or there is an unknown holder of an execution owned here."""
        mine = self._keys.get(key, {})
        if any(not want.granted for want in mine.values()):
            return True
        return any(who not in mine and self._owns(who.partition("/")[0]) for who in found.holders)

    async def run(self) -> None:
        """Settles for ever; cancel to stop."""
        while True:
            self._wake.clear()
            await self._sweep()
            now = self._clock.now()
            for key in [key for key, at in self._due.items() if at <= now]:
                del self._due[key]
                await self._settle(key)
            await self._rest()

    async def _rest(self) -> None:
        wait = min([self._swept + SWEEP_S, *self._due.values()]) - self._clock.now()
        try:
            async with asyncio.timeout(max(wait, 0.0) + 0.001):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _sweep(self) -> None:
        """Ledgers that changed when nobody listened, or that came with a partition."""
        if self._clock.now() < self._swept + SWEEP_S:
            return
        try:
            found = await self._bus.kv_all(topology.LIMITS)
        except NoetlError as error:
            log.warning("limit.waits", error=str(error))
            found = {}
        for name, data in found.items():
            if self._is_concerned(kv.decode_key(name), limit_ledger.decode(data)):
                self._untidy.add(kv.decode_key(name))
                self._settle_soon(kv.decode_key(name))
        self._swept = self._clock.now()

    async def _settle(self, key: str) -> None:
        try:
            settled = await self._write(key)
        except NoetlError as error:
            log.warning("limit.waits", key=key, error=str(error))
            self._settle_soon(key, self._clock.now() + RETRY_S)
            return
        if settled.again is not None:
            self._settle_soon(key, settled.again)
        for want in settled.granted:
            if await self._tell(key, want) and want.limit.count:
                given = settled.ledger.holders[want.holder]
                self._late.setdefault(key, []).append((given, self._clock.now()))

    async def _write(self, key: str) -> limit_ledger.Settled:
        name = kv.encode_key(key)
        for _ in range(MAX_TRIES):
            entry = await self._bus.kv_get(topology.LIMITS, name)
            found = limit_ledger.decode(entry.value) if entry is not None else Ledger()
            late = self._late.get(key, [])[:]
            counted = limit_ledger.moved(found, late)
            gone = self._gone.get(key, set()) | await self._leaked(key, found)
            self._let_go(key)
            wants = self._keys.get(key, {}).values()
            settled = limit_ledger.settle(
                counted, self._me, wants, gone, self._clock.now(), self._others(), tidy=key in self._untidy)
            try:
                if settled.ledger != found:
                    await self._store(name, settled.ledger, entry.revision if entry is not None else 0)
            except Conflict:
                continue
            self._forget(key, gone, late)
            self._untidy.discard(key)
            return settled
        raise Conflict(f"the ledger of {key} is written by too many at once")

    def _let_go(self, key: str) -> None:
        """What another scheduler owns now it reads from the log; so does this one, if it comes back."""
        mine = self._keys.get(key, {})
        for who, want in list(mine.items()):
            if not self._owns(want.execution_id):
                del mine[who]
                self._of.get(want.execution_id, {}).pop(who, None)

    async def _store(self, name: str, found: Ledger, revision: int) -> None:
        if found != Ledger() or not revision:
            await self._bus.kv_put(topology.LIMITS, name, limit_ledger.encode(found), expected=revision)
        else:
            subject = kv.subject_of(topology.LIMITS, name)
            await self._bus.append(subject, b"", expected=revision, headers={KV_OPERATION: "DEL"})

    def _forget(self, key: str, gone: set[str], late: list[tuple[float, float]]) -> None:
        if late:
            self._late[key] = self._late[key][len(late):]
            if not self._late[key]:
                del self._late[key]
        if key in self._gone:
            self._gone[key] -= gone
            if not self._gone[key]:
                del self._gone[key]
        if not self._keys.get(key, True):
            del self._keys[key]

    async def _tell(self, key: str, want: Want) -> bool:
        """Written again if the log does not show it after a while. Whether it was written now."""
        now = self._clock.now()
        self._settle_soon(key, now + TELL_AGAIN_S)
        if now - self._told.get(want.holder, float("-inf")) < TELL_AGAIN_S:
            return False
        granted = ev.LimitGranted(key, want.run_id, want.index)
        source = f"grant-{want.holder.partition('/')[2] or 'execution'}"
        record = Record(want.execution_id, "control", 1, stamp(now), (granted,), source=source)
        partition = subjects.partition_of(want.execution_id, self._partitions)
        try:
            await self._bus.append(subjects.event(partition, want.execution_id, subjects.CONTROL), encode(record))
            self._told[want.holder] = now
        except NoetlError as error:
            log.warning("limit.waits", key=key, execution_id=want.execution_id, error=str(error))
            self._settle_soon(key, now + RETRY_S)
            return False
        return True

    # -- holders nobody speaks for -------------------------------------------------------------

    async def _leaked(self, key: str, found: Ledger) -> set[str]:
        """Holders whose runs are over, of executions owned here: their end was missed."""
        mine, now, gone = self._keys.get(key, {}), self._clock.now(), set[str]()
        for who in found.holders:
            execution_id, _, at = who.partition("/")
            if who in mine or not self._owns(execution_id):
                self._suspects.pop(who, None)
            elif now - self._suspects.setdefault(who, now) < SUSPECT_S:
                self._settle_soon(key, self._suspects[who] + SUSPECT_S)
            elif await self._is_over(execution_id, at):
                log.warning("limit.leaked", key=key, execution_id=execution_id, place=at)
                self._suspects.pop(who, None)
                gone.add(who)
            else:
                self._settle_soon(key, now + SUSPECT_S)
        return gone

    async def _is_over(self, execution_id: str, at: str) -> bool:
        if await standing(self._bus, execution_id, self._partitions) == "over":
            return True
        return self._knows(execution_id, at) is False
