"""What the names of the formal dialect (FX §3.3, FS §7.3, §8.3) stand for at each place of a step."""

import re
from typing import Any

from msgspec.structs import replace

from shared.dsl.lower.names import Names, asks_for_errors, expression, rewrite, written_of
from shared.dsl.lower.nodes import is_map, items, text_of
from shared.dsl.model.texts import Text
from shared.dsl.source.nodes import Node
from shared.dsl.templates.result_view import PAYLOAD

SHAPED = ("http", "postgres", "duckdb")  # kinds whose payload is inside an envelope
_OUTPUT = ("http", "pg", "py", "meta", "status", "error", "result")
EVERYWHERE = Names(plain={"vars": "ctx"})
IN_ARCS = Names(plain={"vars": "ctx"}, dotted={
    ("output", "data"): "event.result.data", ("output", "result"): "event.result", ("output", "error"): "event.error",
    ("output", "status"): "('error' if event.error is not none else 'ok')"})

IN_COND = Names(plain={"vars": "ctx", "exit_code":
                       "(event.result.exit_code if event.error is none else event.error.exit_code | default(none))"})


def key(step: str, what: str) -> str:
    """A key of `iter` that belongs to a step."""
    return re.sub(r"\W", "_", f"{step}_{what}")


def in_rules() -> Names:
    """Rules of the author's own tasks: only the aliases."""
    dotted = {("output", each): f"outcome.{each}" for each in _OUTPUT} | {("output", "data"): "outcome.result.data"}
    return Names(plain={"vars": "ctx"}, dotted=dotted)


def on_task(step: str, kind: str) -> Names:
    """Rules that lowering gives the main task: its outcome is known."""
    view = "(outcome.result if outcome.status == 'ok')"
    code = {"http": "outcome.http.status", "postgres": "outcome.pg.code"}.get(kind, "")
    return _names(step, kind, view, "(outcome.error if outcome.status == 'error')", ok="(outcome.status == 'ok')",
                  failed="(outcome.status == 'error')", status_code="outcome.http.status",
                  success="(outcome.status == 'ok')", attempt="_attempt", data=f"{view}.data",
                  more={("error", each): code or f"outcome.error.{each}" for each in ("status", "code", "status_code")}
                  | counted(step))


def after_task(step: str, kind: str, *, errors: bool, view: str = "_prev") -> Names:
    """Tasks behind the main one. `errors`: they are also reached when it failed."""
    kept = f"iter.{key(step, 'error')}"
    more = counted(step)
    if not errors:
        return _names(step, kind, view, "(none if false)", ok="true", failed="false", more=more)
    return _names(step, kind, f"({view} if {kept} is not defined)", f"({kept} if {kept} is defined)",
                  ok=f"({kept} is not defined)", failed=f"({kept} is defined)", more=more)


def unwrapped(names: Names, edition: int) -> Names:
    """`result` is the payload alone (FX §3.3). Before the third edition, keys of its envelope came before its own."""
    view = names.plain["response"]
    if edition < 3 or names.plain["result"] != f"{view}.result":
        return names
    return replace(names, plain={**names.plain, "result": f"{view}.{PAYLOAD}"})


def counted(step: str) -> dict[tuple[str, str], str]:
    """FX §6.3: the current repetition, and all calls so far."""
    return {("_retry", "index"): f"iter.{key(step, 'index')}", ("_retry", "count"): f"iter.{key(step, 'count')}"}


def on_enter() -> Names:
    return Names(plain={"vars": "ctx"}, ok="false", failed="false", entered="true")


def on_arc(kind: str, *, loop: bool) -> Names:
    found = _names("", "" if loop else kind, "(event.result if event.error is none)",
                   "(event.error if event.error is not none)")
    return replace(found, arc=True)


def _names(step: str, kind: str, view: str, error: str, *, ok: str = "", failed: str = "",
           more: dict[tuple[str, str], str] | None = None, **plain: str) -> Names:
    payload = f"{view}.result" if kind in SHAPED else view
    found = {"vars": "ctx", "response": view, "this": view, "result": payload, "error": error, **plain}
    if step.isidentifier():
        found[step] = view
    status = f"('error' if {failed or 'event.error is not none'} else 'ok')"
    code = {"http": "status", "postgres": "code"}.get(kind, "")
    codes = {("error", each): f"{error}.{code}" for each in ("status", "code", "status_code") if code and each != code}
    dotted = {**codes, ("this", "status"): status, ("this", "error"): error, ("event", "result"): view,
              ("event", "error"): error, ("output", "data"): f"{view}.data", ("output", "error"): error,
              ("output", "status"): status, ("output", "result"): view, ("outcome", "result"): view,
              ("outcome", "error"): error, ("outcome", "status"): status, **(more or {})}
    here = "event" if ok == "" else "outcome" if "outcome.status" in ok else ""  # it stands for itself
    dotted = {pair: text for pair, text in dotted.items() if pair[0] != here}
    return Names(found, dotted, ok=ok, failed=failed)


def with_args(names: Names, keys: dict[str, str]) -> Names:
    """The same, with the arguments of a step bound to `iter`."""
    bound = {name: f"iter.{at}" for name, at in keys.items()}
    return replace(names, plain={**names.plain, **bound},
                   dotted={**names.dotted, **{("args", name): text for name, text in bound.items()}})


def condition(when: Any, names: Names) -> Any:
    """A condition at this place. One that names no event and asks for no error holds for successes only."""
    if not isinstance(when, str):
        return when
    asks = asks_for_errors(when)
    new = rewrite(when, replace(names, exit_on_error=asks))
    inner = expression(new)
    if asks or inner is None or "event.name" in when.replace(" ", ""):
        return new
    guard = "event.error is none" if names.arc else names.ok
    return new if guard == "true" else Text("{{ " + f"{guard} and ({inner})" + " }}", written_of(when))


def negated(when: Any) -> str | None:
    inner = expression(when) if isinstance(when, str) else None
    return None if inner is None else f"not ({inner})"


def patches(node: Node | None) -> tuple[dict[str, Node], dict[str, Node]]:
    """`set` in any of its shapes, as what goes to ctx and what to iter: `{ctx.k: v}`, `{iter.k: v}`, `{k: v}`,
    `{ctx: {k: v}}`, `[{name: k, value: v}]`."""
    to_ctx: dict[str, Node] = {}
    to_iter: dict[str, Node] = {}
    if node is not None and isinstance(node.value, list):
        for each in node.value:
            pair = dict(items(each))
            if set(pair) == {"name", "value"}:
                to_ctx[text_of(pair["name"])] = pair["value"]
            else:
                more = patches(each)
                to_ctx |= more[0]
                to_iter |= more[1]
    for name, value in items(node):
        scope, _, below = name.partition(".")
        if below and scope in ("ctx", "vars", "iter"):
            (to_iter if scope == "iter" else to_ctx)[below] = value
        elif name in ("ctx", "vars", "iter") and is_map(value):
            (to_iter if name == "iter" else to_ctx).update(items(value))
        else:
            to_ctx[name] = value
    return to_ctx, to_iter
