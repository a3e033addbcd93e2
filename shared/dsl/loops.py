"""A step's `loop` (DSL2 §7): what is iterated, how, and how many at a time."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from shared.dsl import told
from shared.dsl.overlay import read_knobs
from shared.dsl.plan import Loop
from shared.dsl.reader import Reader, kind_of, short
from shared.dsl.source import Path
from shared.dsl.texts import check_templates, read_expression

DEFAULT_IN_FLIGHT = 100
MAX_IN_FLIGHT = 1000
RESERVED = ("index", "parent")  # `iter.index`, `iter.parent` (DSL2 §3.3, §3.5)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_IN = "write in: \"{{ … }}\" or a list"


def read_loop(reader: Reader, value: Any, path: Path, knobs: Iterable[str]) -> tuple[Loop, dict[str, Any]]:
    """The loop, and the runtime knobs its spec hands to the tasks."""
    loop = reader.mapping(value, path, 'write loop: {in: "{{ … }}", iterator: item}')
    if not isinstance(value, dict):
        return Loop([], ""), {}
    reader.keys(loop, path, ("in", "iterator", "spec"), told.LOOP, "loop")
    items = _items(reader, loop, path)
    iterator = _iterator(reader, loop, path)
    spec, policy = _spec(reader, loop, path, knobs)
    mode, most = _mode(reader, spec, policy, (*path, "spec"))
    return (Loop(items, iterator, cast(Any, mode), most),
            read_knobs(reader, spec, (*path, "spec"), knobs))


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
    exec_told = {"exec": told.moved("exec", "policy: {exec: distributed} in loop.spec"),
                 "pool": told.moved("pool", "spec: {pool: …} on the step")}
    spec = reader.section(loop, "spec", path, ("mode", "max_in_flight", "policy", *knobs), exec_told)
    policy = reader.section(spec, "policy", at, ("exec", "mode", "max_in_flight"), told.LOOP_POLICY)
    if "exec" in policy and reader.choice(policy["exec"], (*at, "policy", "exec"),
                                          ("distributed", "local")) == "local":
        reader.value((*at, "policy", "exec"), "DSL701", "exec: local is not supported for a loop",
                     "write exec: distributed, or leave it out")
    return spec, policy


def _mode(reader: Reader, spec: Mapping[str, Any], policy: Mapping[str, Any],
          path: Path) -> tuple[str, int]:
    mode_at, most_at = (_setting(reader, spec, policy, path, key) for key in ("mode", "max_in_flight"))
    mode = reader.choice(mode_at[0], mode_at[1], ("sequential", "parallel")) if mode_at else "sequential"
    if most_at is None:
        return mode, DEFAULT_IN_FLIGHT if mode == "parallel" else 1
    most = reader.whole(most_at[0], most_at[1], 1, MAX_IN_FLIGHT)
    if mode == "sequential" and most > 1:
        reader.key(most_at[1], "DSL903", "a sequential loop runs one iteration at a time",
                   "add mode: parallel, or remove max_in_flight", warning=True)
    return mode, most if mode == "parallel" else 1


def _setting(reader: Reader, spec: Mapping[str, Any], policy: Mapping[str, Any], path: Path,
             key: str) -> tuple[Any, Path] | None:
    """A key that V10 §5.3 puts under the policy and DSL2 §7.1 under the spec."""
    if key in spec and key in policy:
        reader.key((*path, "policy", key), "DSL401", f"{key} is given in loop.spec and in its policy",
                   "keep one of the two")
    if key in spec:
        return spec[key], (*path, key)
    return (policy[key], (*path, "policy", key)) if key in policy else None
