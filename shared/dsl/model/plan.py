"""A compiled playbook: what the engine runs. Plain data; template strings are kept as written and
compiled on first use (`templates/compiler.py`)."""

from collections.abc import Set
from typing import Any, Literal

from msgspec import Struct

from shared.dsl.model.edition import edition_of
from shared.errors import Signal
from shared.events.fields import Ending

MAX_LEASES = 3  # of a run in a row that are lost, unless its step says otherwise
EVERYTHING = "*"  # in a Needs set: the whole namespace is used
# What a generated task is in the formal dialect: a sink, the noop that decides its `when`, or rules of a `case`.
Role = Literal["", "sink", "sink.when", "case"]


class Directive(Struct, frozen=True):
    """`then` of a task rule. `delay` and the patches may hold templates. `result` is what the task answers
    with instead of its own result: a task's name, `_prev`, or an expression; `error` an expression for
    what `fail` reports. `multiplier` is that of exponential backoff."""

    do: Literal["continue", "retry", "jump", "break", "fail"] = "continue"
    attempts: int = 1
    backoff: Literal["none", "linear", "exponential"] = "none"
    delay: float | str = 0.0
    to: str = ""
    set_iter: dict[str, Any] = {}
    set_ctx: dict[str, Any] = {}
    multiplier: float = 2.0
    max_delay: float = 300.0
    result: str = ""
    error: str = ""


class Level(Struct, frozen=True):
    """What is iterated, and the name of an element: one level of a loop, or the loop of a task."""

    items: Any
    iterator: str


class Rule(Struct, frozen=True):
    """`when` None is `else`."""

    then: Directive
    when: Any = None


class Task(Struct, frozen=True):
    """`config` are the tool's own keys, templates unrendered; `spec` the effective one (V10 §3.1),
    without its policy. `rules` None: no policy given (ok → continue, error → fail). `expects` are the args it
    must be called with, `returns` the keys its result must have; `select` are paths into the result whose values
    stay beside a reference to it. With a `loop` it is called once per element, in order. `else_takes_all`: also an
    outcome whose retries are used up, as in the first edition. `title` is what it stands for, if it was generated, and
    `role` what it is there. A jump to one of `again` makes the call once more, by a retry policy (FX §6)."""

    name: str
    kind: str
    config: dict[str, Any]
    spec: dict[str, Any] = {}
    rules: tuple[Rule, ...] | None = None
    expects: tuple[str, ...] = ()
    returns: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    loop: Level | None = None
    else_takes_all: bool = False
    title: str = ""
    role: Role = ""
    again: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As messages name it."""
        return self.title or f"task {self.name}"


class Cursor(Struct, frozen=True):
    """Where a loop's elements come from as it goes: a query that claims rows and returns them, `frame` at a time."""

    claim: Task
    frame: int


class AdmitRule(Struct, frozen=True):
    allow: bool
    when: Any = None
    line: int = 0


class Compensate(Struct, frozen=True):
    """The step that undoes another. `args` None: it gets those of the run it undoes."""

    step: str
    args: dict[str, Any] | None = None


class Limit(Struct, frozen=True):
    """Places of a key: at most `max` runs hold one at the same time (0: any number), and at most `count` get one
    within `period_s` (0: any). The key may hold templates."""

    key: str
    max: int = 0
    count: int = 0
    period_s: float = 0.0


class Notify(Struct, frozen=True):
    """The playbook that is started when an execution ends in one of these ways."""

    path: str
    version: str = ""
    payload: dict[str, Any] = {}
    ends: tuple[Ending, ...] = ("failed",)


class Loop(Struct, frozen=True):
    """`max_in_flight` is 1 for a sequential loop; as text it is an expression, evaluated when the loop starts.
    `inner` are the loops within it, from outside in; with `stop_when` true no further iteration starts. `local`: one
    worker runs all iterations; with a `cursor` there are no `items`. `set_ctx` is written when it is done."""

    items: Any
    iterator: str
    mode: Literal["sequential", "parallel"] = "sequential"
    max_in_flight: int | str = 1
    inner: tuple[Level, ...] = ()
    stop_when: Any = None
    local: bool = False
    cursor: Cursor | None = None
    set_ctx: dict[str, Any] = {}

    @property
    def levels(self) -> tuple[Level, ...]:
        return (Level(self.items, self.iterator), *self.inner)


class Tolerance(Struct, frozen=True):
    """How many iterations of a loop may fail, or how many of a hundred."""

    most: float = 0
    percent: bool = False

    def of(self, count: int) -> int:
        return int(count * self.most / 100) if self.percent else int(self.most)


class Arc(Struct, frozen=True):
    """No `when`: fires when the step succeeded. `on_failure`: its `when` reads what happened, so that it is asked
    about a failure too; no other is."""

    step: str
    when: Any = None
    args: dict[str, Any] = {}
    on_failure: bool = False


class Needs(Struct, frozen=True):
    """The names a step's templates can read, so that a command carries only those.

    `names` are bare names (resolved args → ctx → iter → workload → steps); `ctx` and `workload`
    are keys used as `ctx.key` / `workload.key`, or EVERYTHING. `parts` are the keys of a bare name, where nothing
    but keys of it is read. `caller`: a playbook that it starts may read the iteration around this execution.
    """

    names: frozenset[str] = frozenset()
    ctx: frozenset[str] = frozenset()
    workload: frozenset[str] = frozenset()
    parts: dict[str, frozenset[str]] = {}
    caller: bool = False


class Step(Struct, frozen=True):
    """`needs` covers the tasks and `loop.in`; `task_needs` the tasks alone: what an iteration carries. A number
    as `join` is how many tokens enter together. With `requires`, the pool is chosen when an execution starts.
    `all_may_fail`: a best-effort loop is done even if no iteration succeeded, as in the first edition. `former`: as in
    the second, `step.exit` is a success in its arcs, and its admission sees no event. `hides`: as in the third, an
    error of a rule takes the place of the failure that it is asked about, and the name of an event has no methods.
    `case`: its arcs are the rules of a case (FX §7.1). `timed_by_executor`: its `timeout_s` is the executor's."""

    name: str
    tasks: tuple[Task, ...] = ()
    arcs: tuple[Arc, ...] = ()
    mode: Literal["exclusive", "inclusive"] = "exclusive"
    admit: tuple[AdmitRule, ...] = ()
    loop: Loop | None = None
    pool: str = "default"
    timeout_s: float | None = None
    timed_by_executor: bool = False
    deadline_s: float | None = None
    max_leases: int = MAX_LEASES
    failure: Literal["fail_fast", "best_effort"] = "fail_fast"
    tolerate: Tolerance = Tolerance()
    max_payload_bytes: int = 131072
    needs: Needs = Needs()
    task_needs: Needs = Needs()
    line: int = 0
    desc: str = ""
    join: Literal["all", "each", "any"] | int = "all"
    compensate: Compensate | None = None
    limit: Limit | None = None
    requires: tuple[str, ...] = ()
    all_may_fail: bool = False
    case: bool = False
    former: bool = False
    hides: bool = False


class Origin(Struct, frozen=True):
    """Where a generated step or task comes from (V10 §15: compiler debug map)."""

    line: int
    what: str
    role: Role = ""


class Plan(Struct, frozen=True, kw_only=True):
    """`reach[s]` are the steps a token at `s` can still get to by one or more arcs; `origins` the steps and
    tasks that lowering generated; `workload_order` its keys in the order they are rendered, or nothing in the editions
    in which all of them saw the texts of the others."""

    name: str
    path: str
    version: str
    digest: str
    workload: dict[str, Any]
    steps: dict[str, Step]
    reach: dict[str, Set[str]]
    keychain: tuple[dict[str, Any], ...] = ()
    start: str = "start"
    timeout_s: float | None = None
    origins: dict[str, Origin] = {}
    limit: Limit | None = None
    priority: int | None = None
    labels: dict[str, str] = {}
    workload_order: tuple[str, ...] = ()
    notify: Notify | None = None

    @property
    def edition(self) -> int:
        """That of the language, by which its name in the log is read."""
        return edition_of(self.digest)


class PlanMissing(Signal):
    """Pure work asks for a plan that is not in memory: load it, and ask again."""

    def __init__(self, digest: str) -> None:
        super().__init__(digest)
        self.digest = digest
