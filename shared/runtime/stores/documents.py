"""Documents that people apply, in a bucket of KV: `<kind>.<name>` holds the entry of one, and what a service keeps of
it is beside it under a key of its own. Their number and their size are limited.

Every change compares and sets: the entry that was read is replaced, or nothing is. Whoever loses gets a Conflict, or
with `change` reads what the winner wrote and decides again."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Generic, Literal, TypeVar

import msgspec
import structlog

from shared.bus.kv import is_key, key_of
from shared.bus.ports import Bus
from shared.errors import Conflict, Corrupt, NoetlError, Refused
from shared.events import subjects
from shared.events.decoding import read

MAX_ENTRY_BYTES = 1_048_576
TRIES = 10
MAX_REMEMBERED = 1000
Done = Literal["created", "changed", "unchanged"]
E = TypeVar("E")
T = TypeVar("T")
log = structlog.get_logger()


class NotThere(NoetlError):
    """No such document."""


class Documents(Generic[E]):
    """Those of one kind. `state` begins the keys of what is kept beside them; a key whose rest is not a `name` is
    nobody's document."""

    def __init__(
        self, bucket: str, kind: str, entry: type[E], *, most: int, state: str,
        name: re.Pattern[str] = re.compile(".+"),
    ) -> None:
        self._bucket, self._kind, self._entry, self.most, self._name = bucket, kind, entry, most, name
        self._prefix, self._state = f"{kind}.", f"{state}."

    # Keys

    def key(self, name: str) -> str:
        return self._prefix + name

    def state_key(self, name: str) -> str:
        return self._state + name

    def subject(self) -> str:
        """Where entries are written, for whoever follows them."""
        return subjects.key(self._bucket, self.key("*"))

    def name_of(self, subject: str) -> str | None:
        """None: an entry of another kind."""
        key = key_of(self._bucket, subject)
        return key.removeprefix(self._prefix) if key.startswith(self._prefix) else None

    # Reading

    def decode(self, data: bytes) -> E:
        return self.decode_as(self._entry, data)

    def decode_as(self, type_: type[T], data: bytes) -> T:
        """For what is kept beside the entries."""
        return read(msgspec.json.Decoder(type_), data, f"{type_.__name__} in {self._bucket}", MAX_ENTRY_BYTES)

    def names(self, bucket: Mapping[str, bytes]) -> list[str]:
        """Also of those whose entry cannot be read: nobody has deleted them."""
        found = (key.removeprefix(self._prefix) for key in sorted(bucket) if key.startswith(self._prefix))
        return [name for name in found if self._name.fullmatch(name)]

    def entries(self, bucket: Mapping[str, bytes]) -> dict[str, E]:
        """By name, among all keys of the bucket."""
        found: dict[str, E] = {}
        for name in self.names(bucket):
            try:
                found[name] = self.decode(bucket[self.key(name)])
            except Corrupt as error:
                _tell_unreadable(self._kind, name, str(error))
        return found

    def without_document(self, bucket: Mapping[str, bytes]) -> list[str]:
        """Names of documents that are gone, and of which something is still kept."""
        names = [key.removeprefix(self._state) for key in bucket if key.startswith(self._state)]
        return [name for name in names if self.key(name) not in bucket]

    async def everything(self, bus: Bus) -> dict[str, E]:
        return self.entries(await bus.kv_all(self._bucket))

    async def find(self, bus: Bus, name: str) -> tuple[E, int]:
        """With its revision. Raises NotThere."""
        entry, revision = await self._look(bus, name)
        if entry is None:
            raise self._not_there(name)
        return entry, revision

    async def _look(self, bus: Bus, name: str) -> tuple[E | None, int]:
        found = await bus.kv_get(self._bucket, self.key(name)) if is_key(self.key(name)) else None
        return (None, 0) if found is None else (self.decode(found.value), found.revision)

    def _not_there(self, name: str) -> NotThere:
        return NotThere(f"no {self._kind} {name!r} (`noetlctl {self._kind} list` shows what is there)")

    # Writing

    async def put(self, bus: Bus, name: str, entry: E, revision: int) -> None:
        """Conflict when someone else wrote since that revision. 0: a new one; Refused when there are too many."""
        if not revision and len(await self.everything(bus)) >= self.most:
            raise Refused(f"there are {self.most} {self._kind}s, and that is the limit")
        await bus.kv_put(self._bucket, self.key(name), msgspec.json.encode(entry), expected=revision)

    async def change(self, bus: Bus, name: str, how: Callable[[E], E], new: E | None = None) -> tuple[Done, E]:
        """What `how` makes of the entry, or `new` where there is none; without `new`, NotThere. Tried again when
        someone else was first."""
        for _ in range(TRIES):
            old, revision = await self._look(bus, name)
            entry = new if old is None else how(old)
            if entry is None:
                raise self._not_there(name)
            if entry == old:
                return "unchanged", entry
            with suppress(Conflict):
                await self.put(bus, name, entry, revision)
                return "changed" if revision else "created", entry
        raise Conflict(f"{self._kind} {name} is being changed by someone else all the time")

    async def delete(self, bus: Bus, name: str) -> None:
        await bus.kv_delete(self._bucket, self.key(name))
        await bus.kv_delete(self._bucket, self.state_key(name))


@lru_cache(maxsize=MAX_REMEMBERED)
def _tell_unreadable(kind: str, name: str, reason: str) -> None:
    """Once, and not with every look."""
    log.error("document.unreadable", kind=kind, name=name, error=reason)
