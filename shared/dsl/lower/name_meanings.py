"""What the names of the formal dialect (FX §3.3, FS §7.3, §8.3) stand for at each place of a step."""

import re
from typing import Any

from msgspec.structs import replace

from shared.dsl.lower.names import Names, asks_for_errors, expression, rewrite, written_of
from shared.dsl.lower.nodes import Env, changed, is_list, is_map, items, replaced, text_of
from shared.dsl.model.edition import EDITION
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


_KINDS = {  # what playbooks of today call errors, each with what it is here
    "rate_limit": "{status} == 429", "auth": "({error}.kind == 'auth' or {status} in (401, 403))",
    "not_found": "{status} == 404", "server_error": "{status} >= 500",
    "client_error": "({status} >= 400 and {status} < 500)",
    "connection": "{error}.kind == 'connect'", "db_deadlock": "{code} in ('40001', '40P01')",
    "db_constraint": "{code} in ('23502', '23503', '23505', '23514')",
}
_KIND = re.compile(r"""((?:[A-Za-z_]\w*\.)*error)\.kind\s*(==|!=)\s*(['"])(\w+)\3""")
_TEXTS = r"""\s*(?:'\w+'|"\w+")\s*(?:,\s*(?:'\w+'|"\w+")\s*)*,?\s*"""
_AMONG = re.compile(rf"""((?:[A-Za-z_]\w*\.)*error)\.kind\s+(in|not\s+in)\s*(\[{_TEXTS}\]|\({_TEXTS}\))""")


def kinds_of_errors(env: Env, node: Node) -> Node:
    """The workflow with `error.kind == 'rate_limit'` and the like in conditions as questions that errors answer."""
    if env.edition < 3:
        return node
    if isinstance(node.value, dict):
        return changed(node, {name: _asked(each) if name == "when" else kinds_of_errors(env, each)
                              for name, each in items(node)})
    return replaced(node, [kinds_of_errors(env, each) for each in node.value]) if is_list(node) else node


def _asked(when: Node) -> Node:
    if not isinstance(when.value, str) or ".kind" not in when.value:
        return when
    text = _AMONG.sub(_questions, _KIND.sub(_question, when.value))
    return when if text == when.value else Node(when.position, Text(text, written_of(when.value)), when.style)


def _question(found: re.Match[str]) -> str:
    error, sign, _, kind = found.groups()
    if kind not in _KINDS:
        return found[0]
    test = _test(error, kind)
    return f"({test})" if sign == "==" else f"(not ({test}))"


def _questions(found: re.Match[str]) -> str:
    """Of a list in which one of them is."""
    error, sign, listed = found.groups()
    kinds = re.findall(r"\w+", listed)
    if not any(kind in _KINDS for kind in kinds):
        return found[0]
    test = " or ".join(_test(error, kind) if kind in _KINDS else f"{error}.kind == '{kind}'" for kind in kinds)
    return f"({test})" if sign == "in" else f"(not ({test}))"


def _test(error: str, kind: str) -> str:
    owner = error.removesuffix(".error")  # of an outcome, the tool's own blocks have the codes
    outcome = owner in ("outcome", "output")
    return _KINDS[kind].format(error=error, status=f"{owner}.http.status" if outcome else f"{error}.status",
                               code=f"{owner}.pg.code" if outcome else f"{error}.code")


def key(step: str, what: str) -> str:
    """A key of `iter` that belongs to a step."""
    return re.sub(r"\W", "_", f"{step}_{what}")


def in_rules(edition: int = EDITION) -> Names:
    """Rules of the author's own tasks: only the aliases."""
    dotted = {("output", each): f"outcome.{each}" for each in _OUTPUT} | {("output", "data"): "outcome.result.data"}
    if edition > 2:
        dotted["outcome", "response"] = "outcome.result"
    return Names(plain={"vars": "ctx"}, dotted=dotted)


def on_task(step: str, kind: str) -> Names:
    """Rules that lowering gives the main task: its outcome is known."""
    view = "(outcome.result if outcome.status == 'ok')"
    code = {"http": "outcome.http.status", "postgres": "outcome.pg.code"}.get(kind, "")
    return _names(step, kind, view, "(outcome.error if outcome.status == 'error')", ok="(outcome.status == 'ok')",
                  failed="(outcome.status == 'error')", status_code="outcome.http.status",
                  success="(outcome.status == 'ok')", attempt="_attempt", data=f"{view}.data",
                  more={("error", each): code or f"outcome.error.{each}" for each in ("status", "code", "status_code")}
                  | counted(step) | {("this", "meta"): "outcome.meta"})


def after_task(step: str, kind: str, *, errors: bool, view: str = "_prev") -> Names:
    """Tasks behind the main one. `errors`: they are also reached when it failed."""
    kept = f"iter.{key(step, 'error')}"
    more = counted(step) | {("this", "meta"): f"iter.{key(step, 'meta')}"}
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


def with_failures(names: Names, edition: int, view: str, kept: str, status: str = "") -> Names:
    """After a failed call `response`, `this` and `result` are what it answered (FS §8.3, FX §10.3): `status_code`,
    `headers`, `data` and `error`. `view` is the result of a success; `kept` has the answer of a failure, or is empty
    where nothing could be kept; `status` is the status of either. Whether they are there stays a question about
    success, as rules ask it."""
    ok, error = names.ok or "event.error is none", names.plain["error"]
    if edition < 4 or ok == "true":
        return names
    former = {name: names.plain[name] for name in ("response", "this", "result")}
    status = status or f"({view}.status_code if {ok} else {error}.status)"
    answered = f"{kept}.data" if kept else "(none if false)"
    payload = former["result"].replace(former["response"], view, 1)
    data = f"({view}.data if {ok} else {answered})"
    fields = {"status_code": status, "data": data}
    fields |= {"headers": f"({view}.headers if {ok} else {kept}.headers)"} if kept else {}
    dotted = {(name, field): text for name in ("response", "this") for field, text in fields.items()}
    dotted |= {("response", "error"): f"({view}.error if {ok} else {error})", ("output", "data"): data}
    said = {"status": "'error'", "status_code": f"{status} | default(none)", "data": f"{answered} | default(none)",
            "error": error}
    envelope = f"dict({', '.join(f'{name}={text}' for name, text in said.items())})"
    whole = dict.fromkeys(("response", "this"), f"({view} if {ok} else {envelope})")
    body = dict.fromkeys(("response", "this"), f"({view} if {ok} else {answered})")
    result = f"({payload} if {ok} else {answered})"
    return replace(names, dotted={**names.dotted, **dotted}, whole=whole, tested=former,
                   plain={**names.plain, **body, "result": result})


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
    new = rewrite(when, replace(names, exit_on_error=asks, asks=True))
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
