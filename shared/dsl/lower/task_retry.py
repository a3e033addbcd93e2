"""`retry` on a task: the shapes of FS §7 and FX §6 as rules before its own, and `retry_on`, a list of kinds of
errors."""

from typing import Any

from shared.dsl.lower.build import ERROR, OK, RULES, directive, rule, with_rules
from shared.dsl.lower.nodes import Env, build, changed, get, is_list, is_map, items, listed, text_of, without
from shared.dsl.lower.retry import pause, start, tries, whole
from shared.dsl.source.nodes import Node

_ERRORS = {"timeout": "timeout", "connection_error": "connect", "connect": "connect", "connection": "connect"}
_KEYS = ("max_attempts", "retry_on", "retry_on_status", "backoff", "initial_delay", "delay", "backoff_multiplier",
         "max_delay")
_BACKOFFS = {"fixed": "none", "none": "none", "linear": "linear", "exponential": "exponential"}


def retried_sink(env: Env, step: str, sink: Node) -> Node:
    """A sink whose tool has a `retry`, with its rules under `RULES`, for `sink_task` to put before its own."""
    tool = get(sink, "tool")
    given = get(tool, "retry") if is_map(tool) else get(sink, "retry")
    if given is None or tool is None:
        return sink
    owner = tool if is_map(tool) else sink
    rules = _rules(env, step, text_of(get(tool, "kind")) or text_of(tool), given)
    put = changed(without(owner, ("retry",)), {RULES: build(given.position, rules)} if rules else {})
    return changed(sink, {"tool": put}) if is_map(tool) else put


def retried(env: Env, step: str, task: Node) -> Node:
    """The task with its `retry` as rules; itself when it has none."""
    given = get(task, "retry")
    if given is None:
        return task
    rules = _rules(env, step, text_of(get(task, "kind")), given)
    rest = [rule(ERROR, directive("fail")), rule(OK, directive("continue"))]
    return with_rules(without(task, ("retry",)), rules, rest)


def _rules(env: Env, step: str, kind: str, given: Node) -> list[dict[str, Any]]:
    if is_map(given) and any(get(given, key) is not None for key in ("retry_on", "retry_on_status", "backoff")):
        return _on_errors(env, given)
    retry = start(env, step, kind, {}, given)
    whole(env, retry, given, "")
    if retry.inits or retry.tasks:
        env.error(given, "DSL301", "retry of a task tries the same call again",
                  "put retry on the step to count, to change the next call or to collect")
        return []
    return retry.rules


def _on_errors(env: Env, given: Node) -> list[dict[str, Any]]:
    for key, value in items(given):
        if key not in _KEYS:
            env.error(value, "DSL201", f"unknown key {key[:60]!r} in retry", f"known here: {', '.join(_KEYS)}")
    kinds = _kinds(env, get(given, "retry_on"))
    statuses = [each.value for each in listed(get(given, "retry_on_status"))]
    tests = [f"outcome.error.kind in {kinds}"] if kinds else []
    tests += [f"outcome.http.status in {statuses}"] if statuses else []
    test = "outcome.status == 'error'" + (f" and ({' or '.join(tests)})" if tests else "")
    return [rule(build(given.position, "{{ " + test + " }}"), _again(env, given))]


def _kinds(env: Env, node: Node | None) -> list[str]:
    """The kinds of errors; `error` and nothing are all."""
    if node is None:
        return []
    words = listed(node) if is_list(node) else [node]
    if any(text_of(each) in ("error", "all", "any") for each in words):
        return []
    for each in words:
        if text_of(each) not in _ERRORS:
            env.error(each, "DSL204", f"retry_on has no {text_of(each)[:60]!r}",
                      f"one of: {', '.join(_ERRORS)}, error; or write a rule with do: retry")
    return sorted({_ERRORS[text_of(each)] for each in words if text_of(each) in _ERRORS})


def _again(env: Env, given: Node) -> dict[str, Any]:
    """`backoff` is a word, or the seconds between two tries."""
    found = directive("retry", attempts=tries(env, given))
    backoff, factor = get(given, "backoff"), get(given, "backoff_multiplier")
    delay = pause(env, given, "initial_delay") or pause(env, given, "delay")
    if backoff is not None and isinstance(backoff.value, str):
        if backoff.value not in _BACKOFFS:
            env.error(backoff, "DSL204", f"backoff cannot be {backoff.value[:60]!r}", f"one of: {', '.join(_BACKOFFS)}")
        found["backoff"] = _BACKOFFS.get(backoff.value, "none")
    elif backoff is not None:
        delay = delay or backoff
    if delay is not None:
        found["delay"] = delay
    if factor is not None and factor.value != 1:
        found |= {"backoff": "exponential", "multiplier": factor}
    if (most := get(given, "max_delay")) is not None:
        found["max_delay"] = most
    return found
