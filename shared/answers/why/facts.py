"""What `why` says, and what it needs to know of the world around an execution. Plain data, which a shell gathers."""

from typing import Any, Literal

from msgspec import Struct

from shared.answers.why.remedies import Remedy
from shared.engine.scheduling.limit_ledger import Ledger
from shared.events.beat import Busy, Key, Saying

Kind = Literal["blocked", "running", "denied", "over", "note"]
Mover = Literal["itself", "someone", "nothing"]
RunKey = tuple[str, int]  # run, iteration (-1: none)
# The codes people and programs rely on; docs/cli.md says what each means.
CAUSES = frozenset({
    "over", "running", "request.waiting", "request.refused", "request.dead", "admission.denied", "join.too_few",
    "arcs.none",
    "join.waits", "paused", "cancelling", "compensating", "pool.unknown", "pool.paused", "pool.no_workers", "pool.full",
    "pool.queued", "tool.busy", "turn", "command.lost", "command.stranded",
    "loop.window", "loop.stopped", "loop.failures", "backoff", "wait.time", "wait.signal", "wait.child",
    "limit.places", "limit.execution", "limit.rate", "lease.silent", "router.deciding", "scheduler.deciding",
    "router.gone", "scheduler.gone", "router.behind", "scheduler.behind", "router.silent", "scheduler.silent",
    "router.aside", "scheduler.aside",
    "clock.skewed", "log.corrupt", "store.refuses",
    "playbook.gone", "deadline", "more",
})
# What makes a cause go away, unless the reason itself says otherwise. All others do so by themselves: services that
# run, others that end, times that come.
MOVERS: dict[str, Mover] = {
    **dict.fromkeys((
        "paused", "pool.unknown", "pool.paused", "pool.no_workers", "wait.signal", "router.gone", "scheduler.gone",
        "playbook.gone", "store.refuses",
    ), "someone"),
    **dict.fromkeys(("log.corrupt", "router.aside", "scheduler.aside"), "nothing"),
}


class Reason(Struct, frozen=True, omit_defaults=True):
    """`cause` is a stable code, `text` a sentence for people, `values` what decided; `remedy` is what makes it
    continue. `indexes` are the iterations it is about when they are many. `because` are other executions that this one
    waits for. What mends the reason has done so within `mended_s`: if it is there for longer, nothing will."""

    cause: str
    kind: Kind
    text: str
    step: str = ""
    run_id: str = ""
    index: int = -1
    indexes: tuple[int, ...] = ()
    task: str = ""
    attempt: int = 0
    values: dict[str, Any] = {}
    since: str = ""
    until: str = ""
    remedy: Remedy | None = None
    because: tuple["Answer", ...] = ()
    moved_by: Mover | None = None
    mended_s: float = 0.0

    def __post_init__(self) -> None:
        assert self.cause in CAUSES, self.cause

    @property
    def mover(self) -> Mover:
        return self.moved_by or MOVERS.get(self.cause, "itself")


class Answer(Struct, frozen=True, omit_defaults=True):
    """`as_of` is the last record of the execution that was read, `by` who asked for it: a person, a schedule, a
    trigger, another execution."""

    execution_id: str
    status: str
    reasons: tuple[Reason, ...] = ()
    path: str = ""
    by: str = ""
    started: str = ""
    as_of: int = 0


class Worker(Struct, frozen=True):
    """A worker's last beat, and when the broker got it. One that is `draining` accepts nothing new; `started` is when
    its life began: one that is started again under the same name holds nothing of its earlier life. `skew`: by how much
    its machine's clock is ahead of the broker's. `says`: what calls under way have printed last."""

    name: str
    pool: str
    slots: int
    held: frozenset[Key]
    room: int
    heard: float
    draining: bool = False
    started: float = 0.0
    skew: float = 0.0
    busy: tuple[Busy, ...] = ()
    says: tuple[Saying, ...] = ()


class Pool(Struct, frozen=True):
    """The pool's consumer as the broker shows it. `known`: it has one; `pending` commands nobody has got, `held`
    those that were delivered, `delivered` the sequence of the last one; all up to `floor` it considers done.
    `paused_until` 0: until someone resumes it.
    `managed`: its document wants `wanted` workers of the pools service, and `state` and `message` say how that goes;
    `silent` are workers whose process is there, and when each was last heard. `scaled`: KEDA decides how many there
    are, by the demand."""

    name: str
    known: bool = True
    pending: int = 0
    held: int = 0
    delivered: int = 0
    lease_s: float = 15.0
    paused: bool = False
    paused_until: float = 0.0
    paused_at: float = 0.0
    paused_by: str = ""
    paused_note: str = ""
    managed: bool = False
    wanted: int = 0
    state: str = ""
    message: str = ""
    floor: int = 0
    silent: dict[str, float] = {}
    scaled: bool = False


class Queued(Struct, frozen=True):
    """A command in the queue: its sequence, since when, and how many are before it (-1: not looked at)."""

    seq: int = 0
    at: float = 0.0
    before: int = -1


class World(Struct, frozen=True):
    """`now` is the broker's time. `members` are the live instances of the control services; None when nobody listened
    for them. `cursors` say up to which record each service has handled the partition, `skews` by how much the clocks
    of the machines of members are ahead of the broker's."""

    now: float
    workers: tuple[Worker, ...] = ()
    pools: dict[str, Pool] = {}
    queued: dict[RunKey, Queued] = {}
    ledgers: dict[str, Ledger] = {}
    members: dict[str, tuple[str, ...]] | None = None
    cursors: dict[str, int] = {}
    skews: dict[str, float] = {}
    others: dict[str, Answer] = {}

    def of(self, pool: str) -> list[Worker]:
        return [worker for worker in self.workers if worker.pool == pool]

    def worker(self, name: str) -> Worker | None:
        return next((worker for worker in self.workers if worker.name == name), None)

    def holder(self, key: Key) -> Worker | None:
        return next((worker for worker in self.workers if key in worker.held), None)
