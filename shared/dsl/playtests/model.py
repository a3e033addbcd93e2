"""`kind: Test`: a playbook, and cases that say how its tools answer and what the result must be."""

from typing import Any, Literal

from msgspec import Struct

Ending = Literal["completed", "failed", "cancelled"]
ENDINGS = ("completed", "failed", "cancelled")
STEP_ENDS = ("done", "failed", "cancelled")
ORDERS = ("same", "any")
SELECTORS = ("attempt", "nth", "run", "iteration")
ANSWERS = ("result", "error", "outcome")
RUNNABLE = ("python", "duckdb", "shell")  # kinds that need nothing but this machine
OUTCOME_KEYS = ("status", "result", "error", "http", "pg", "py", "meta")

ROOT_KEYS = ("apiVersion", "kind", "desc", "playbook", "with", "run", "mocks", "cases")
CASE_KEYS = ("name", "desc", "payload", "now", "run", "mocks", "signals", "cancel", "order", "expect")
MOCK_KEYS = ("playbook", "step", "task", *SELECTORS, "when", *ANSWERS, "after")
SIGNAL_KEYS = ("name", "payload", "at")
CANCEL_KEYS = ("at", "reason")
EXPECT_KEYS = ("status", "path", "steps", "ctx", "result", "error", "calls", "elapsed", "that")
STEP_KEYS = ("runs", "status", "iterations", "failed")
ELAPSED_KEYS = ("least", "most")

MAX_CASES = 1000
MAX_MOCKS = 1000       # of a case, and of the file
MAX_SIGNALS = 1000
MAX_WITH = 50
MAX_COUNT = 1_000_000
MAX_TIME_S = 366 * 86_400.0


class Mock(Struct, frozen=True):
    """How a task answers. It fits a call whose step, task and selectors are the same and whose `when` holds; a
    selector that is None fits every call. `playbook` is the path of the playbook it is about; empty: the one under
    test. One of `result`, `error` and `outcome` is what `says` names. `line` is where it is."""

    step: str
    task: str
    says: Literal["result", "error", "outcome"]
    value: Any
    playbook: str = ""
    attempt: int | None = None
    nth: int | None = None
    run: int | None = None
    iteration: int | None = None
    when: Any = None
    after: float = 0.0
    line: int = 0


class Signal(Struct, frozen=True):
    name: str
    payload: Any = None
    at: float = 0.0


class Cancel(Struct, frozen=True):
    at: float = 0.0
    reason: str = ""


class StepExpect(Struct, frozen=True):
    """None: not looked at."""

    runs: int | None = None
    status: str | None = None
    iterations: int | None = None
    failed: int | None = None


class Elapsed(Struct, frozen=True):
    least: float
    most: float


class Expect(Struct, frozen=True, kw_only=True):
    """What the result of a case must be. None: not checked; a `result` that may be null is in a tuple."""

    status: Ending = "completed"
    path: tuple[str, ...] | None = None
    steps: dict[str, StepExpect] = {}
    ctx: dict[str, Any] = {}
    result: tuple[Any, ...] | None = None
    error: dict[str, Any] | None = None
    calls: dict[str, int] = {}
    elapsed: Elapsed | None = None
    that: tuple[str, ...] = ()


class Case(Struct, frozen=True):
    """`mocks` are its own; those of the file are asked after them. `now` are seconds since the epoch."""

    name: str
    expect: Expect = Expect()
    payload: dict[str, Any] = {}
    mocks: tuple[Mock, ...] = ()
    signals: tuple[Signal, ...] = ()
    cancel: Cancel | None = None
    run: tuple[str, ...] = ()
    order: Literal["same", "any"] = "same"
    now: float | None = None
    line: int = 0


class PlayTest(Struct, frozen=True):
    """`playbook` and `others` are files, as written: relative to the test's own."""

    playbook: str
    others: tuple[str, ...]
    cases: tuple[Case, ...]
    mocks: tuple[Mock, ...] = ()
    desc: str = ""
