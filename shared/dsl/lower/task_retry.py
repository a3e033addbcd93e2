"""`retry` on a task: the shapes of FS §7 and FX §6 as rules before its own, and `retry_on`, a list of kinds of
errors."""

from typing import Any

from shared.dsl.lower.build import ERROR, OK, directive, rule, with_rules
from shared.dsl.lower.nodes import Env, build, get, is_list, is_map, items, listed, text_of, without
from shared.dsl.lower.retry import DEFAULT_ATTEMPTS, start, whole
from shared.dsl.source.nodes import Node

_ERRORS = {"timeout": "timeout", "connection_error": "connect", "connect": "connect", "connection": "connect"}
_KEYS = ("max_attempts", "retry_on", "backoff", "initial_delay", "delay", "backoff_multiplier", "max_delay")
_BACKOFFS = {"fixed": "none", "none": "none", "linear": "linear", "exponential": "exponential"}


def retried(env: Env, step: str, task: Node) -> Node:
    """The task with its `retry` as rules; itself when it has none."""
    given = get(task, "retry")
    if given is None:
        return task
    task = without(task, ("retry",))
    if is_map(given) and (get(given, "retry_on") is not None or get(given, "backoff") is not None):
        rules = _on_errors(env, given)
    else:
        retry = start(env, step, text_of(get(task, "kind")), {}, given)
        whole(env, retry, given, "")
        rules = retry.rules
        if retry.inits or retry.tasks:
            env.error(given, "DSL301", "retry of a task tries the same call again",
                      "put retry on the step to count, to change the next call or to collect")
            rules = []
    return with_rules(task, rules, [rule(ERROR, directive("fail")), rule(OK, directive("continue"))])


def _on_errors(env: Env, given: Node) -> list[dict[str, Any]]:
    for key, value in items(given):
        if key not in _KEYS:
            env.error(value, "DSL201", f"unknown key {key[:60]!r} in retry", f"known here: {', '.join(_KEYS)}")
    kinds = _kinds(env, get(given, "retry_on"))
    test = "outcome.status == 'error'" + (f" and outcome.error.kind in {kinds}" if kinds else "")
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
    found = directive("retry", attempts=get(given, "max_attempts") or DEFAULT_ATTEMPTS)
    backoff, factor = get(given, "backoff"), get(given, "backoff_multiplier")
    delay = get(given, "initial_delay") or get(given, "delay")
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
