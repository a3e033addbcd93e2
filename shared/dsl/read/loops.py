"""A step's `loop` (DSL2 §7): what is iterated, how, and how many at a time; the loops within it (V10 §6.4); and
the loop of a task."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from shared.dsl.model.plan import Level, Loop
from shared.dsl.model.tool_spec import ToolSpec
from shared.dsl.read import rejected_keys
from shared.dsl.read.cursors import read_cursor
from shared.dsl.read.reader import Reader, Told, kind_of, short
from shared.dsl.read.spec_layers import read_knobs
from shared.dsl.read.task_policy import read_patch
from shared.dsl.read.template_fields import check_templates, read_expression
from shared.dsl.source.nodes import Path

DEFAULT_IN_FLIGHT = 100
MAX_IN_FLIGHT = 1000
MAX_LOOP_LEVELS = 4
RESERVED = ("index", "parent")  # `iter.index`, `iter.parent` (DSL2 §3.3, §3.5)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_LEVEL = 'write loop: {in: "{{ … }}", iterator: item}'
_IN = "write in: \"{{ … }}\" or a list"


def read_loop(reader: Reader, value: Any, path: Path, knobs: Iterable[str],
              kinds: Mapping[str, ToolSpec]) -> tuple[Loop, dict[str, Any]]:
    """The loop, and the runtime knobs its spec hands to the tasks."""
    loop = reader.mapping(value, path, _LEVEL)
    if not isinstance(value, dict):
        return Loop([], ""), {}
    reader.keys(loop, path, ("in", "cursor", "iterator", "spec", "loop", "set_ctx"), rejected_keys.LOOP, "loop")
    cursor = read_cursor(reader, loop["cursor"], (*path, "cursor"), kinds) if "cursor" in loop else None
    items = _items(reader, loop, path) if cursor is None or "in" in loop else []
    iterator = _iterator(reader, loop, path)
    spec, policy = _spec(reader, loop, path, knobs)
    mode, most = _mode(reader, spec, policy, (*path, "spec"))
    inner = _inner(reader, loop, path, mode, (iterator,))
    stop = read_expression(reader, spec["stop_when"], (*path, "spec", "stop_when"),
                           'write stop_when: "{{ … }}"') if "stop_when" in spec else None
    local = policy.get("exec") == "local"
    if cursor is not None:
        _beside_cursor(reader, loop, path, local)
    found = Loop(
        items=items, iterator=iterator, mode=cast(Any, mode), max_in_flight=most, inner=inner, stop_when=stop,
        local=local, cursor=cursor, set_ctx=read_patch(reader, loop, "set_ctx", path),
    )
    return found, read_knobs(reader, spec, (*path, "spec"), knobs)


def _beside_cursor(reader: Reader, loop: Mapping[str, Any], path: Path, local: bool) -> None:
    """What cannot be combined with a cursor."""
    if "in" in loop:
        reader.key((*path, "in"), "DSL401", "the loop has in and cursor", "keep one of the two")
    if "loop" in loop:
        reader.key((*path, "loop"), "DSL701", "a loop within a loop with a cursor is not supported",
                   "give the task a loop of its own, or let it start a playbook")
    if local:
        reader.value((*path, "spec", "policy", "exec"), "DSL701", "exec: local with a cursor is not supported",
                     "remove it; for one row at a time write mode: sequential")


def check_local(reader: Reader, loop: Loop | None, kinds: Iterable[str], path: Path, *, limited: bool) -> None:
    """`kinds` are those of the tasks that wait without a worker; `path` is that of the step."""
    if loop is None or not loop.local:
        return
    at, waiting = (*path, "loop", "spec", "policy", "exec"), ", ".join(sorted(set(kinds)))
    if waiting:
        reader.value(at, "DSL701", f"a local loop stays on its worker, and kind {waiting} waits without one",
                     "write exec: distributed, or move the task to a step of its own")
    if limited:
        reader.value(at, "DSL701", "a local loop stays on its worker, and its step has limits to wait for",
                     "write exec: distributed, or remove max and rate from limits")


def _inner(reader: Reader, outer: Mapping[str, Any], path: Path, mode: str,
           names: tuple[str, ...]) -> tuple[Level, ...]:
    """The loops within a loop. All levels are one run of iterations, so they share the outermost one's spec."""
    if "loop" not in outer:
        return ()
    at = (*path, "loop")
    if len(names) == MAX_LOOP_LEVELS:
        reader.key(at, "DSL801", f"over {MAX_LOOP_LEVELS} levels of loops", "put the rest into a playbook of its own")
        return ()
    loop = reader.mapping(outer["loop"], at, _LEVEL)
    if not isinstance(outer["loop"], dict):
        return ()
    told = {**rejected_keys.LOOP, "set_ctx": rejected_keys.SET_BY_LOOP}
    reader.keys(loop, at, ("in", "iterator", "spec", "loop"), told, "loop")
    level = Level(_items(reader, loop, at), _iterator(reader, loop, at))
    if level.iterator in names and level.iterator:
        reader.value((*at, "iterator"), "DSL401", f"the loop around it has the iterator {short(level.iterator)} too",
                     "give one of them another name")
    spec = reader.section(loop, "spec", at, ("mode",), rejected_keys.INNER_LOOP)
    modes = ("sequential", "parallel")
    if "mode" in spec and reader.choice(spec["mode"], (*at, "spec", "mode"), modes) != mode:
        reader.value((*at, "spec", "mode"), "DSL701", f"the loop around it is {mode}, and this one goes with it",
                     f"write mode: {mode}, or give the task a loop of its own, which runs in order")
    return (level, *_inner(reader, loop, at, mode, (*names, level.iterator)))


def read_task_loop(reader: Reader, body: Mapping[str, Any], path: Path) -> Level | None:
    """A task's own loop: in order, on the worker that has the run."""
    if "loop" not in body:
        return None
    at = (*path, "loop")
    loop = reader.mapping(body["loop"], at, _LEVEL)
    if not isinstance(body["loop"], dict):
        return None
    ordered = Told("DSL701", "the loop of a task runs in order, one element at a time",
                   "remove spec, or put the loop on the step: loop: {…, loop: {…}}")
    told = {**rejected_keys.LOOP, "spec": ordered, "mode": ordered, "max_in_flight": ordered,
            "loop": rejected_keys.TASK_LOOP}
    reader.keys(loop, at, ("in", "iterator"), told, "the loop of a task")
    return Level(_items(reader, loop, at), _iterator(reader, loop, at))


def _items(reader: Reader, loop: Mapping[str, Any], path: Path) -> Any:
    at = (*path, "in")
    if "in" not in loop:
        reader.key(path, "DSL404", "loop has no in", _IN)
        return []
    items = loop["in"]
    if isinstance(items, list):
        check_templates(reader, items, at, secrets=False)
    elif isinstance(items, str):
        read_expression(reader, items, at, _IN)
    else:
        reader.value(at, "DSL203", f"loop.in must be a list or an expression, not {kind_of(items)}", _IN)
    return items


def _iterator(reader: Reader, loop: Mapping[str, Any], path: Path) -> str:
    at = (*path, "iterator")
    if "iterator" not in loop:
        reader.key(path, "DSL404", "loop has no iterator", "add iterator: item")
        return ""
    name = loop["iterator"]
    if not isinstance(name, str) or not _IDENTIFIER.match(name) or name in RESERVED:
        reader.value(at, "DSL205", f"the iterator cannot be called {short(name)}",
                     f"letters, digits and _, not beginning with a digit; not {' or '.join(RESERVED)}")
        return ""
    return name


def _spec(reader: Reader, loop: Mapping[str, Any], path: Path,
          knobs: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    at = (*path, "spec")
    exec_told = {"exec": rejected_keys.moved("exec", "policy: {exec: distributed} in loop.spec"),
                 "pool": rejected_keys.moved("pool", "spec: {pool: …} on the step")}
    spec = reader.section(loop, "spec", path, ("mode", "max_in_flight", "stop_when", "policy", *knobs), exec_told)
    policy = reader.section(spec, "policy", at, ("exec", "mode", "max_in_flight"), rejected_keys.LOOP_POLICY)
    if "exec" in policy:
        reader.choice(policy["exec"], (*at, "policy", "exec"), ("distributed", "local"))
    return spec, policy


def _mode(reader: Reader, spec: Mapping[str, Any], policy: Mapping[str, Any],
          path: Path) -> tuple[str, int | str]:
    mode_at, most_at = (_setting(reader, spec, policy, path, key) for key in ("mode", "max_in_flight"))
    mode = reader.choice(mode_at[0], mode_at[1], ("sequential", "parallel")) if mode_at else "sequential"
    if most_at is None:
        return mode, DEFAULT_IN_FLIGHT if mode == "parallel" else 1
    most = _in_flight(reader, *most_at)
    if mode == "sequential" and most != 1:
        reader.key(most_at[1], "DSL903", "a sequential loop runs one iteration at a time",
                   "add mode: parallel, or remove max_in_flight", warning=True)
    return mode, most if mode == "parallel" else 1


def _in_flight(reader: Reader, value: Any, path: Path) -> int | str:
    """A number, or an expression that the scheduler evaluates once, when the loop starts."""
    if not isinstance(value, str):
        return reader.whole(value, path, 1, MAX_IN_FLIGHT)
    fix = f"a whole number from 1 to {MAX_IN_FLIGHT}, or one {{{{ expression }}}}"
    return str(read_expression(reader, value, path, fix))


def _setting(reader: Reader, spec: Mapping[str, Any], policy: Mapping[str, Any], path: Path,
             key: str) -> tuple[Any, Path] | None:
    """A key that V10 §5.3 puts under the policy and DSL2 §7.1 under the spec."""
    if key in spec and key in policy:
        reader.key((*path, "policy", key), "DSL401", f"{key} is given in loop.spec and in its policy",
                   "keep one of the two")
    if key in spec:
        return spec[key], (*path, key)
    return (policy[key], (*path, "policy", key)) if key in policy else None
