"""Checks of the names in templates: each must be something the playbook defines. The payload of a
request may add keys to the workload, so these are warnings."""

from collections.abc import Iterator, Mapping, Set
from typing import Any

from msgspec import Struct

from shared.dsl.check.plan_paths import Sites
from shared.dsl.model.plan import Loop, Plan, Step, Task
from shared.dsl.model.texts import as_written
from shared.dsl.model.tool_spec import ToolSpec
from shared.dsl.read import template_hints
from shared.dsl.read.reader import Reader, short
from shared.dsl.read.template_fields import strings
from shared.dsl.source.nodes import Path
from shared.dsl.templates.analysis import facts
from shared.dsl.templates.conditions import constants
from shared.dsl.templates.evaluate import is_template
from shared.dsl.templates.filters import FILTERS
from shared.dsl.templates.methods import FUNCTIONS
from shared.dsl.templates.names import NOW, Read
from shared.events.aliases import BOUNDARY

EVERYWHERE = frozenset({"workload", "ctx", "args", "execution_id", "job"})
IN_TASKS = frozenset({"iter", "_prev", "_task", "_attempt", "keychain", NOW})
OF_OUTCOME = frozenset({"status", "result", "error", "meta", "http", "pg", "py"})
OF_EVENT = frozenset({"name", "result", "error", "payload"})
_CLOSED = {"outcome": OF_OUTCOME, "event": OF_EVENT}  # nobody adds a field
_FORMAL = ("result", "response", "this", "error", "status_code", "attempt", "max_attempts", "success", "data", "vars")
_VALUES = {("outcome", "status"): frozenset({"ok", "error"}), ("event", "name"): frozenset().union(*BOUNDARY.values())}
UNDOING = "compensates"  # in a step that compensates another
BEFORE_STEPS = frozenset({"workload", "execution_id", "job"})
IN_WORKLOAD = BEFORE_STEPS | {"payload", NOW}
_LIMIT_KEY = ("spec", "policy", "limits", "key")
_MISPLACED = {
    "outcome": "outcome is there in the rules of a task; an arc has event.result and event.error",
    "output": "output is there in rules, in arcs and in a task behind another; elsewhere write the name of a step",
    "event": "event is there in arcs, admission and set_ctx of a loop; a rule has outcome",
    "iter": "iter is there in the tasks of a step; carry a value on with set_ctx",
    "keychain": "read keychain in the keys of a task",
    **dict.fromkeys(("now", NOW),
                    "now() is there in workload, in the keys and rules of tasks, in arcs and in admission"),
    **dict.fromkeys(("null", "nil", "NULL"), "did you mean none?"),
    "token": "write {{ keychain.name.field }} in the keys of a task, or auth: <credential name>",
    **dict.fromkeys(("response", "result"), "write event.result in an arc, outcome.result in a rule, and elsewhere the "
                    "name of the step that is meant"),
}


class _Seen(Struct, frozen=True):
    """What templates see: bare names, and the keys of a namespace where they are known."""

    names: frozenset[str]
    keys: Mapping[str, frozenset[str]]

    def plus(self, *names: str, without: str = "") -> "_Seen":
        return _Seen((self.names | set(names)) - {without}, self.keys)


class _Scope(Struct, frozen=True):
    """A value tree and what its templates see."""

    value: Any
    path: Path
    seen: _Seen


def check_names(reader: Reader, plan: Plan, sites: Sites, kinds: Mapping[str, ToolSpec]) -> None:
    told: set[tuple[Any, ...]] = set()
    named: set[str] = set()
    for scope in _scopes(plan, sites, kinds):
        for name in _templates_as_keys(scope.value):
            if name not in named:
                named.add(name)
                reader.value(scope.path, "DSL903", f"the key {short(name)} is taken as written: values are rendered",
                             "write a plain key, or make the whole mapping in one {{ expression }}", warning=True)
        for text, path in strings(scope.value, scope.path):
            if is_template(text):
                _values(reader, text, path)
            for read in facts(text).reads if is_template(text) else ():
                names = scope.seen.keys.get(read.space) if read.space else scope.seen.names
                key = (scope.path[:2], read.space, read.name)
                if names is not None and read.name not in names and key not in told:
                    told.add(key)
                    _tell(reader, read, path, names, bool(plan.workload), as_written(text))


def _tell(reader: Reader, read: Read, path: Path, names: frozenset[str], inputs: bool, written: str) -> None:
    """Without a `workload` section its keys are not known: then only a name much like another is reported. `written` is
    the template as its author knows it, who may not have written the name."""
    if read.called and read.name not in _MISPLACED:
        _no_function(reader, read, path)
        return
    formal = read.space == "" and "outcome" in names and read.name in written and "outcome" not in written
    near = reader.nearest(read.name, sorted({*names, *(_FORMAL if formal else ())}))
    if formal and not near and read.name == "status":
        near = "status_code"
    if not inputs and read.space in ("", "workload") and not near and read.name not in _MISPLACED:
        return
    position = reader.document.text_line(path, read.line)
    fix = f"did you mean {near}?" if near else ""
    if not read.space:
        fix = _MISPLACED.get(read.name, "") or fix or "define it, or write {{ name | default(…) }}"
        what = f"called {short(read.name)}" if read.name in written else f"what {short(written)} asks for"
        reader.at(position, "DSL910", f"nothing here is {what}", fix, warning=True)
        return
    if read.space in _CLOSED:
        fix = fix or f"one of: {', '.join(sorted(names))}"
    fix = fix or {
        "workload": f"add {read.name} to workload",
        "args": "pass it in the args of an arc that leads here",
    }.get(read.space, f"set it with set_{read.space}: {{{read.name}: …}} in a rule")
    reader.at(position, "DSL911", f"{read.space} has no key {short(read.name)}", fix[:200], warning=True)


def _no_function(reader: Reader, read: Read, path: Path) -> None:
    """No value can be called: functions are the language's own. What others call one may be a filter here."""
    filtered = read.name if read.name in FILTERS else template_hints.CALLED.get(read.name, "")
    near = "" if filtered else reader.nearest(read.name, sorted(FUNCTIONS))
    filtered = filtered or ("" if near else reader.nearest(read.name, sorted(FILTERS)))
    fix = f"did you mean {near}?" if near else template_hints.LISTED
    fix = f"write {{{{ value | {filtered} }}}}" if filtered else fix
    reader.at(reader.document.text_line(path, read.line), "DSL910", f"there is no function {short(read.name)}", fix,
              warning=True)


def _templates_as_keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (key for key in value if is_template(key))
        for below in value.values():
            yield from _templates_as_keys(below)
    elif isinstance(value, list):
        for below in value:
            yield from _templates_as_keys(below)


def _values(reader: Reader, text: str, path: Path) -> None:
    """A comparison with what a status or the name of an event never is."""
    for owner, known in _VALUES.items():
        if owner[0] not in text:
            continue
        for value in sorted(constants(text, owner) - known):
            near = reader.nearest(value, sorted(known))
            fix = f"did you mean {near}?" if near else f"one of: {', '.join(sorted(known))}"
            reader.value(path, "DSL921", f"{'.'.join(owner)} is never {short(value)}", fix[:200], warning=True)


def _scopes(plan: Plan, sites: Sites, kinds: Mapping[str, ToolSpec]) -> Iterator[_Scope]:
    workload = frozenset(plan.workload)
    yield _Scope(plan.workload, ("workload",), _Seen(workload | IN_WORKLOAD, {"workload": workload}))
    if plan.limit is not None:
        yield _Scope(plan.limit.key, ("executor", *_LIMIT_KEY), _Seen(workload | BEFORE_STEPS, {"workload": workload}))
    ctx = frozenset(key for step in plan.steps.values() for task in step.tasks
                    for rule in task.rules or () for key in rule.then.set_ctx)
    ctx |= {key for step in plan.steps.values() if step.loop is not None for key in step.loop.set_ctx}
    args: dict[str, frozenset[str]] = dict.fromkeys(plan.steps, frozenset())
    for step in plan.steps.values():
        for arc in step.arcs:
            args[arc.step] |= arc.args.keys()
    undo: dict[str, set[str]] = {}
    for step in plan.steps.values():
        if step.compensate is not None:
            given = args[step.name] if step.compensate.args is None else step.compensate.args.keys()
            undo.setdefault(step.compensate.step, set()).update(given)
    args |= {name: frozenset(keys) for name, keys in undo.items()}
    for name, step in plan.steps.items():
        names = EVERYWHERE | workload | ctx | plan.steps.keys() | args[name] | ({UNDOING} if name in undo else set())
        keys = {"workload": workload, "ctx": ctx, "args": args[name], **_CLOSED}
        yield from _of_step(step, sites, kinds, _Seen(names, keys))


def _of_step(step: Step, sites: Sites, kinds: Mapping[str, ToolSpec], seen: _Seen) -> Iterator[_Scope]:
    path = sites.step(step.name)
    for index, admit in enumerate(step.admit):
        yield _Scope(admit.when, (*path, "spec", "policy", "admit", "rules", index, "when"), seen.plus("event", NOW))
    if step.compensate is not None and step.compensate.args is not None:
        at = (*path, "spec", "policy", "compensate", "args")
        yield _Scope(step.compensate.args, at, seen.plus(UNDOING))
    if step.limit is not None:
        iterators = {level.iterator for level in step.loop.levels} if step.loop is not None else set()
        yield _Scope(step.limit.key, (*path, *_LIMIT_KEY), _with_iter(seen, iterators) if iterators else seen)
    if step.loop is not None:
        yield from _of_loop(step.loop, sites, (*path, "loop"), seen)
    for index, arc in enumerate(step.arcs):
        yield _Scope({"when": arc.when, "args": arc.args}, sites.arc(step.name, index), seen.plus("event", NOW))
    iter_ = _iter(step)
    names = seen.names | IN_TASKS | {task.name for task in step.tasks} | iter_ | (
        {"loop_index"} if step.loop or any(task.loop for task in step.tasks) else set())
    inside = _Seen(names, {**seen.keys, "iter": iter_ | {"parent"}})
    for index, task in enumerate(step.tasks):
        yield from _of_task(step, index, task, sites, kinds, inside)


def _of_loop(loop: Loop, sites: Sites, path: Path, seen: _Seen) -> Iterator[_Scope]:
    yield _Scope(loop.max_in_flight, _in_flight(sites, (*path, "spec")), seen)
    stop = _with_iter(seen.plus("results", "count", "last"), {level.iterator for level in loop.levels})
    yield _Scope(loop.stop_when, (*path, "spec", "stop_when"), stop)
    yield _Scope(loop.set_ctx, (*path, "set_ctx"), seen.plus("event", NOW))
    if loop.cursor is not None:
        yield _Scope(loop.cursor.claim.config, (*path, "cursor"), seen.plus("claim", "keychain"))
        return
    outer: set[str] = set()
    for level in loop.levels:
        yield _Scope(level.items, (*path, "in"), _with_iter(seen, outer) if outer else seen)
        outer.add(level.iterator)
        path = (*path, "loop")


def _with_iter(seen: _Seen, iterators: Set[str]) -> _Seen:
    return _Seen(seen.names | iterators | {"iter", "loop_index"},
                 {**seen.keys, "iter": frozenset(iterators | {"index", "count", "parent"})})


def _in_flight(sites: Sites, path: Path) -> Path:
    """Where `max_in_flight` is: in the loop's spec, or in the policy there."""
    return (*path, "max_in_flight") if sites.has((*path, "max_in_flight")) else (*path, "policy", "max_in_flight")


def _iter(step: Step) -> frozenset[str]:
    own = frozenset(key for task in step.tasks for rule in task.rules or () for key in rule.then.set_iter)
    looped = {level.iterator for level in step.loop.levels} if step.loop else set()
    looped |= {task.loop.iterator for task in step.tasks if task.loop}
    return own | looped | {"index", "count"} if looped else own


def _of_task(step: Step, index: int, task: Task, sites: Sites, kinds: Mapping[str, ToolSpec],
             seen: _Seen) -> Iterator[_Scope]:
    keys = kinds[task.kind].keys
    rendered = {key: value for key, value in task.config.items() if key not in keys or keys[key].template}
    yield _Scope(rendered, sites.task(step.name, index), seen)
    if task.loop is not None:
        around = seen if step.loop is not None else seen.plus(without="loop_index")
        yield _Scope(task.loop.items, (*sites.task(step.name, index), "loop", "in"), around.plus(without=NOW))
    ruled = seen.plus("outcome", without="keychain")
    for number, rule in enumerate(task.rules or ()):
        then = rule.then
        yield _Scope(rule.when, (*sites.rule(step.name, index, number), "when"), ruled)
        patches = {key: getattr(then, key) for key in ("delay", "set_iter", "set_ctx", "result", "error")}
        yield _Scope(patches, sites.then(step.name, index, number), ruled)
