"""What there is to say about one history: its proof, or what is wrong with it, or why nobody can tell."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from shared.answers.history.history import Entry, History
from shared.answers.verify.proof import Proof, prove
from shared.answers.verify.reports import history_of
from shared.answers.verify.verify import Violation, verify_alone, verify_history
from shared.bus.ports import Bus, Message
from shared.errors import Corrupt, Forged, NoetlError
from shared.events import model as ev
from shared.events import record as records
from shared.runtime.stores import catalog, results
from shared.runtime.stores.plans import Plans

T = TypeVar("T")
RUNNING = "running"
Word = Literal["verified", "unfinished", "violated", "unverifiable"]


class Projection(Struct):
    """How the read model compares: `rows` of it are as the log has them."""

    state: Literal["same", "different", "behind", "unknown"] = "unknown"
    rows: int = 0
    tables: dict[str, int] = {}
    reason: str = "not asked for"


class Verdict(Struct):
    """`last` is the sequence up to which the log was read, `last_at` the time of the record that has it."""

    execution_id: str
    verdict: Word
    path: str = ""
    status: str = RUNNING
    first: int = 0
    last: int = 0
    last_at: str = ""
    proof: Proof | None = None
    projection: Projection = msgspec.field(default_factory=Projection)
    violations: list[Violation] = []
    reason: str = ""

    def violated(self, *found: Violation) -> None:
        self.violations = sorted([*self.violations, *found], key=lambda violation: violation.seq)
        self.verdict = "violated"

    @property
    def over(self) -> bool:
        return self.status != RUNNING


class Unverifiable(NoetlError):
    """What the checker needs is gone, or this build cannot read it."""


class Sources:
    """Plans and stored values, brought as the checker asks for them; a plan that cannot be had is asked for once."""

    def __init__(self, bus: Bus, partitions: int) -> None:
        self._bus, self.plans, self.partitions = bus, Plans(bus), partitions
        self._lost: dict[str, str] = {}

    async def ask(self, work: Callable[[dict[str, Any]], T]) -> T:
        values: dict[str, Any] = {}
        try:
            return await results.brought(self._bus, values, lambda: work(values), self)
        except results.ValueMissing as error:
            raise Unverifiable(f"a stored value is missing: {error}") from None

    async def load(self, digest: str) -> None:
        try:
            if digest not in self._lost:
                await self.plans.load(digest)
        except (catalog.NotRegistered, Corrupt) as error:
            self._lost[digest] = f"its playbook cannot be had: {error}"
        if digest in self._lost:
            raise Unverifiable(self._lost[digest])


async def examine(sources: Sources, execution_id: str, messages: Sequence[Message]) -> Verdict:
    """The verdict on a history as the stream holds it; nothing of it is the caller's fault, so nothing is raised
    but what the broker does not answer."""
    verdict = Verdict(execution_id, "verified", first=messages[0].seq, last=messages[-1].seq)
    try:
        history = history_of(execution_id, _decoded(messages, sources.partitions, verdict))
    except Unverifiable as reason:
        verdict.verdict, verdict.reason = "unverifiable", str(reason)
        return verdict
    _describe(verdict, history)
    verdict.last_at = history.entries[-1][1].ts if history.entries else ""
    verdict.proof = prove(history)
    found = await _checked(sources, history, verdict)
    if found:
        verdict.violated(*found)
    elif verdict.verdict == "verified" and not history.over:
        verdict.verdict = "unfinished"
    return verdict


async def _checked(sources: Sources, history: History, verdict: Verdict) -> list[Violation]:
    try:
        return await sources.ask(lambda values: verify_history(history, sources.plans, values))
    except Unverifiable as reason:
        verdict.verdict, verdict.reason = "unverifiable", str(reason)
        return verify_alone(history)
    except Corrupt as error:
        return [Violation("value", str(error), verdict.last)]


def _decoded(messages: Sequence[Message], partitions: int, verdict: Verdict) -> list[Entry]:
    entries: list[Entry] = []
    for message in messages:
        try:
            entries.append((message.seq, records.decode(message, partitions)))
        except Forged as error:
            verdict.violated(Violation("forged", f"{error}; no reader takes it", message.seq))
        except Corrupt as error:
            if "upgrade the reader" in str(error):
                raise Unverifiable(f"record {message.seq}: {error}") from None
            verdict.violated(Violation("record", f"it cannot be read: {error}", message.seq))
    return entries


def _describe(verdict: Verdict, history: History) -> None:
    for _, _, event in history.events("router"):
        match event:
            case ev.ExecutionRequested(path=path):
                verdict.path = path
            case ev.PlaybookProcessed(status=status):
                verdict.status = status


def shown(verdict: Verdict, messages: Sequence[Message] = (), most: int | None = None) -> dict[str, Any]:
    """As JSON has it; each violation with the record that shows it."""
    data = {message.seq: message.data for message in messages}
    listed = [
        {**msgspec.to_builtins(found), "record": _record(data.get(found.seq))} for found in verdict.violations[:most]
    ]
    return {**msgspec.to_builtins(verdict), "violations": listed}


def _record(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return data[:2000].decode(errors="replace")
