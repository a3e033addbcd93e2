"""Task policy (V10 §5.4): rules that turn an outcome into a directive."""

from typing import Any, cast

from shared.dsl.model.plan import Directive, Rule
from shared.dsl.read import rejected_keys
from shared.dsl.read.reader import Reader, kind_of, short
from shared.dsl.read.shapes import RuleSource, rules
from shared.dsl.read.template_fields import check_templates, read_condition, read_expression
from shared.dsl.source.nodes import Path
from shared.dsl.templates.conditions import Known, truth

MAX_ATTEMPTS = 1000
ACTIONS = ("continue", "retry", "jump", "break", "fail")
BACKOFFS = ("none", "linear", "exponential")
REDUCERS = ("$add", "$append", "$extend", "$max", "$min", "$union", "$merge")
POLICY_KEYS = ("rules", "mode", "on_unmatched", "before", "after", "finally")
_ONLY = {"attempts": "retry", "backoff": "retry", "delay": "retry", "multiplier": "retry", "max_delay": "retry",
         "to": "jump", "error": "fail"}
THEN_KEYS = ("do", *_ONLY, "set_iter", "set_ctx", "result")
PREVIOUS = "_prev"
_ERROR: Known = {("outcome", "status"): frozenset({"error"})}


def read_task_policy(reader: Reader, value: Any, path: Path, labels: frozenset[str]) -> tuple[Rule, ...]:
    policy = reader.mapping(value, path, "write policy: {rules: [{when: …, then: {do: …}}, …]}")
    if not isinstance(value, dict):
        return ()
    reader.keys(policy, path, POLICY_KEYS, rejected_keys.TASK_POLICY, "a task's policy")
    if "mode" in policy:
        reader.choice(policy["mode"], (*path, "mode"), ("exclusive",))
    if "on_unmatched" in policy:
        reader.choice(policy["on_unmatched"], (*path, "on_unmatched"), ("continue",))
    for hook in ("before", "after", "finally"):
        if policy.get(hook, []) != []:
            reader.key((*path, hook), "DSL701", f"{hook} hooks are not supported",
                       f"leave {hook} out, or write {hook}: []")
    sources = rules(reader, policy, path)
    _warn_without_else(reader, sources, path)
    return tuple(_read_rule(reader, source, labels) for source in sources)


def _warn_without_else(reader: Reader, sources: list[RuleSource], path: Path) -> None:
    if sources and not any(source.fallback or truth(source.when, _ERROR) for source in sources):
        reader.key((*path, "rules"), "DSL901", "an error that no rule matches continues to the next task",
                   "end with - else: {then: {do: fail}} or {do: continue}", warning=True)


def _read_rule(reader: Reader, source: RuleSource, labels: frozenset[str]) -> Rule:
    when = None if source.fallback else read_condition(reader, source.when, (*source.path, "when"))
    return Rule(_directive(reader, source.then, source.then_path, labels), when)


def _directive(reader: Reader, then: dict[str, Any], path: Path, labels: frozenset[str]) -> Directive:
    reader.keys(then, path, THEN_KEYS, rejected_keys.THEN, "then of a task's rule")
    if "do" not in then:
        reader.key(path, "DSL503", "then has no do", f"add do: one of {', '.join(ACTIONS)}")
        do = ""
    else:
        do = reader.choice(then["do"], (*path, "do"), ACTIONS)
    if do and do == then["do"]:
        _fits(reader, then, path, do)
    return Directive(
        do=cast(Any, do or "continue"),
        attempts=reader.whole(then["attempts"], (*path, "attempts"), 1, MAX_ATTEMPTS)
        if "attempts" in then else 1,
        backoff=cast(Any, reader.choice(then["backoff"], (*path, "backoff"), BACKOFFS))
        if "backoff" in then else "none",
        delay=_delay(reader, then["delay"], (*path, "delay")) if "delay" in then else 0.0,
        to=_target(reader, then["to"], (*path, "to"), labels) if do == "jump" and "to" in then else "",
        set_iter=read_patch(reader, then, "set_iter", path),
        set_ctx=read_patch(reader, then, "set_ctx", path),
        **_retry_shape(reader, then, path),
        **_answer(reader, then, path, labels),
    )


def _retry_shape(reader: Reader, then: dict[str, Any], path: Path) -> dict[str, Any]:
    found = {}
    for key in ("multiplier", "max_delay"):
        seconds = reader.seconds(then[key], (*path, key)) if key in then else None
        if seconds is not None:
            found[key] = seconds
    if "multiplier" in then and then.get("backoff") != "exponential":
        reader.key((*path, "multiplier"), "DSL503", "multiplier is about exponential backoff",
                   "write backoff: exponential, or remove it")
    return found


def _answer(reader: Reader, then: dict[str, Any], path: Path, labels: frozenset[str]) -> dict[str, Any]:
    """`result`: a task's name, `_prev` or an expression. `error`: an expression."""
    found = {}
    if "error" in then:
        found["error"] = str(read_expression(reader, then["error"], (*path, "error"), "one {{ expression }}"))
    if "result" in then:
        value, at = then["result"], (*path, "result")
        if value == PREVIOUS or (isinstance(value, str) and value in labels):
            found["result"] = value
        else:
            fix = "a task of this step, _prev, or one {{ expression }}"
            found["result"] = str(read_expression(reader, value, at, fix))
    return found


def _fits(reader: Reader, then: dict[str, Any], path: Path, do: str) -> None:
    """`retry` needs attempts and `jump` needs to; neither accepts the other's keys."""
    for key, owner in _ONLY.items():
        if key in then and owner != do:
            reader.key((*path, key), "DSL503", f"{key} has no meaning for do: {do}",
                       f"remove it, or write do: {owner}")
    needed = {"retry": "attempts", "jump": "to"}.get(do)
    if needed and needed not in then:
        fix = "add attempts: 5 (all tries, the first included)" if do == "retry" else "add to: <task name>"
        reader.key(path, "DSL503", f"do: {do} has no {needed}", fix)


def _delay(reader: Reader, value: Any, path: Path) -> float | str:
    if type(value) in (int, float):
        if value < 0:
            reader.value(path, "DSL204", "delay must not be below 0", "a number of seconds, 0 or more")
        return float(value)
    fix = "a number of seconds, 0 or more, or one {{ expression }}"
    if not isinstance(value, str):
        reader.value(path, "DSL203", f"delay must be a number, not {kind_of(value)}", fix)
        return 0.0
    return str(read_expression(reader, value, path, fix))


def _target(reader: Reader, value: Any, path: Path, labels: frozenset[str]) -> str:
    if isinstance(value, str) and value in labels:
        return value
    near = reader.nearest(value, sorted(labels))
    fix = f"did you mean {near}?" if near else f"one of: {', '.join(sorted(labels)[:20])}"
    reader.value(path, "DSL406", f"the step has no task {short(value)} to jump to", fix)
    return ""


def read_patch(reader: Reader, then: dict[str, Any], key: str, path: Path) -> dict[str, Any]:
    if key not in then:
        return {}
    at = (*path, key)
    patch = reader.mapping(then[key], at, f"write {key}: {{name: value}}")
    check_templates(reader, patch, at, secrets=False)
    for name, value in patch.items():
        _reducer(reader, value, (*at, name))
    return patch


def _reducer(reader: Reader, value: Any, path: Path) -> None:
    """A one-key mapping with `$` is a reducer (V10 §15); a plain value may not look like one."""
    if not isinstance(value, dict):
        return
    for name in value:
        if not name.startswith("$") or (name in REDUCERS and len(value) == 1):
            continue
        near = reader.nearest(name, REDUCERS) if name not in REDUCERS else ""
        fix = f"exactly one of: {', '.join(REDUCERS)}"
        reader.key((*path, name), "DSL504", f"{short(name)} is not a reducer here",
                   f"did you mean {near}?" if near else fix)


