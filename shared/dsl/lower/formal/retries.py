"""Rules of a `case` that try the call again: they are the main task's own. A rule before them that matches the same
event and does not try again wins first."""

from typing import Any

from shared.dsl.lower.build import directive, rule
from shared.dsl.lower.case import Case
from shared.dsl.lower.formal.events import Which, asked, tried
from shared.dsl.lower.formal_tail import Parts
from shared.dsl.lower.names import Names, expression
from shared.dsl.lower.nodes import build, changed, is_map
from shared.dsl.lower.retry import policy

_EVENTS: tuple[Which, ...] = ("call", "exit")


def case_retries(parts: Parts, fails: dict[str, Any]) -> None:
    """`fails` is what an error does that is not tried again."""
    names = parts.retry.on_task()
    cases = [case for case in parts.cases if not case.enters]
    retries = [case for case in cases if case.retry is not None]
    if not retries:
        return
    for place, case in enumerate(cases):
        if case.retry is not None:
            when = tried(case, names, parts.step)
            if when is not None:
                policy(parts.env, parts.retry, when, _block(case), parts.main, ends=False)
            continue
        later = [each for each in cases[place + 1:] if each.retry is not None]
        _told(parts, case, retries, names)
        which = next((event for event in _EVENTS if asked(case, names, event, parts.step) is not None
                      and any(asked(each, names, event, parts.step) is not None for each in later)), None)
        if which is not None:
            _wins(parts, case, asked(case, names, which, parts.step), fails)


def _block(case: Case) -> Any:
    block = case.retry
    if block is not None and case.collect is not None and is_map(block):
        return changed(block, {"collect": case.collect})
    return block


def _wins(parts: Parts, case: Case, when: Any, fails: dict[str, Any]) -> None:
    inner = expression(when) if isinstance(when, str) else None
    if inner is not None:
        failed = "{{ outcome.status == 'error' and (" + inner + ") }}"
        parts.retry.rules.append(rule(build(case.position, failed), fails))
    parts.retry.rules.append(rule(build(case.position, when), directive("continue")))


def _told(parts: Parts, case: Case, retries: list[Case], names: Names) -> None:
    """Between two calls nothing is done about the first: the event of the call would be passed over."""
    if not case.acts:
        return
    only_call = asked(case, names, "call", parts.step) is not None and asked(case, names, "exit", parts.step) is None
    if only_call and any(asked(each, names, "call", parts.step) is None for each in retries):
        parts.env.error(case.position, "DSL301", "a rule on step.exit tries again, and this one acts on the call",
                        "name call.done or call.error in the rule with retry")
