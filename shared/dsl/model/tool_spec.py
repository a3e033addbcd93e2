"""What the compiler knows of a tool kind: data handed in by the caller, so that the language
never imports the tools."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct


class KeySpec(Struct, frozen=True):
    """A key that a tool accepts: for validation, the schema and the documentation."""

    doc: str
    required: bool = False
    template: bool = True  # False: used as written, never rendered (program text)
    sql: bool = False      # `{{ }}` in it becomes a bound parameter; also in a list of texts
    shell: bool = False    # `{{ }}` in it becomes a variable of the shell; also in a list of texts
    credential: bool = False        # names a credential: the worker resolves it, as `auth` of the task
    named: bool = False             # of a credential: the tool gets its name too
    choices: tuple[str, ...] = ()   # all it may be, unless it is a template
    most: int = 0  # characters of a text that is no template; the tool holds a rendered one to it. 0: any number
    rows: bool = False  # of `args`: a row, a list of rows, or an expression that gives either
    program: bool = False  # its values are variables of a program, which is handed a whole loop with its counts
    python: bool = False  # a program in Python, as written
    fields: Mapping[str, "KeySpec"] = {}  # it is a mapping, and these are all its keys
    wrong: Callable[[Any], str] | None = None  # why a value that is no template can never be taken, told to authors


COMMON_KNOBS: Mapping[str, KeySpec] = {
    "timeout": KeySpec("Seconds for one call, or {connect, read, total}."),
}


OWN_RETRY = ("attempts", "delay")  # keys of the knob `retry`: what a tool repeats inside one call (V10 §9.1)
OWN_ATTEMPTS = 5  # more belong into a rule of the task, which the log tells of
OWN_DELAY_S = 5


class ToolSpec(Struct, frozen=True):
    """`keys` are the tool's own, beside those every task has (`tasks.COMMON_KEYS`). `knobs` are what
    it accepts under `spec` beside COMMON_KNOBS; `defaults` is the outermost layer of them (V10 §3.1)."""

    kind: str
    doc: str
    keys: Mapping[str, KeySpec]
    pure: bool = False
    knobs: Mapping[str, KeySpec] = {}
    defaults: Mapping[str, Any] = {}
    one_of: tuple[str, ...] = ()  # exactly one of these keys is given
    aliases: bool = False         # `auth` may name several credentials, each with an alias
    waits: bool = False           # a call may be parked without a worker until something has happened
    by_name: str = ""             # the key that a task's name stands for, where it has none of `one_of`
    claims: bool = False          # may give a loop its rows, claimed in a transaction (`loop.cursor`)
    # Whether a call only reads: whatever it is asked and however often, nothing is another afterwards. It is given the
    # task's keys and its spec as written, so a template says nothing. A kind without it has effects.
    reads: Callable[[Mapping[str, Any], Mapping[str, Any]], bool] | None = None
    blocks: Mapping[str, Mapping[str, Any]] = {}  # of an outcome, when there is nothing to say (`pg: {code: null}`)

    def all_knobs(self) -> dict[str, KeySpec]:
        return {**COMMON_KNOBS, **self.knobs}
