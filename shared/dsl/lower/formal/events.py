"""The events that the rules of a `case` are held against (FX §7.1, §9.2; FS §8).

A step has two events: that of its call (`call.done` or `call.error`), then `step.exit`, which comes after a failure
too. The first rule that matches an event acts on it, so that two rules may act, one on each.

1. A rule that names no event is about successes. It is asked about every event that some rule of the case names, and
   acts once: on the first it matches.
2. `step.done` and `step.failed` are `step.exit` after a success and after a failure.
3. A rule that names no failure and puts the result somewhere, without a test or a default, is about successes: what it
   does cannot be done without a result, and trying would hide the failure behind an error of the rule.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal

from msgspec.structs import replace

from shared.dsl.lower.case import Case, reads_status
from shared.dsl.lower.names import Names, asks_for_errors, event_names, expression, free_names, rewrite, written_of
from shared.dsl.lower.nodes import Env, get, items, listed
from shared.dsl.model.texts import Text
from shared.dsl.source.nodes import Node
from shared.dsl.templates.conditions import constants, truth
from shared.events.aliases import BOUNDARY, ENTER, EXITS

Which = Literal["call", "exit"]
CALL_OK = BOUNDARY["step.done"] - EXITS - {"step.done"}
CALL_FAILED = BOUNDARY["step.failed"] - EXITS - {"step.failed"}
_LOOP = BOUNDARY["loop.done"] - BOUNDARY["step.done"]
_OWN = {"call": CALL_OK | CALL_FAILED, "exit": EXITS | {"step.done", "step.failed"} | _LOOP}
_KNOWN = ENTER.union(*BOUNDARY.values())
_TESTED = re.compile(r"\bdefault\b|\bis\s+(not\s+)?(defined|none)\b|\bif\b")
_FAILURE = re.compile(r"(?<![\w.'\"])[45]\d\d(?![\w.'\"])")  # a status that no success has
_DATA = frozenset({"result", "response", "this", "output", "outcome"})


def at(names: Names, which: Which) -> Names:
    """The names of a place while its event is this one: in an arc the event itself is there, on a worker only whether
    the call failed."""
    events: dict[str, str]
    if names.arc:
        events = {name: f"event.name == '{name}'" for name in _OWN[which]}
    elif which == "call":
        events = {**dict.fromkeys(CALL_OK, names.ok), **dict.fromkeys(CALL_FAILED, names.failed)}
    else:
        events = {**dict.fromkeys(EXITS, "true"), "step.done": names.ok, "step.failed": names.failed}
    failed = names.failed or "event.error is not none"
    name = "'step.exit'" if which == "exit" else f"('call.error' if {failed} else 'call.done')"
    return replace(names, events=events, event=name if names.spelled or not names.arc else "")


def anywhere(names: Names) -> Names:
    """The names of the main task's own rules, which stand for both events."""
    return replace(names, events={**_events(at(names, "call")), **_events(at(names, "exit"))},
                   event=at(names, "call").event)


def _events(names: Names) -> Mapping[str, str]:
    return names.events or {}


def asked(case: Case, names: Names, which: Which, step: str) -> Any:
    """The condition of a rule at a place and an event; None if it can never hold there. `else` is not asked."""
    return None if case.when is None else _held(case, at(names, which), step)


def _held(case: Case, names: Names, step: str) -> Any:
    guard = "event.error is none" if names.arc else names.ok
    if not isinstance(case.when, str):
        return "{{ " + guard + " }}" if case.when and guard != "false" else None
    new = rewrite(case.when, replace(names, asks=True))
    inner = expression(new)
    if inner is not None and guard != "true" and _is_of_success(case, step):
        if guard == "false":
            return None
        new = Text("{{ " + f"{guard} and ({inner})" + " }}", written_of(case.when))
    return None if truth(new) is False else new


def tried(case: Case, names: Names, step: str) -> Any:
    """The condition of a rule that tries again, in the rules of the main task; `else` is about successes."""
    return "{{ " + names.ok + " }}" if case.when is None else _held(case, anywhere(names), step)


def may_fail(case: Case, step: str) -> bool:
    """Whether the rule can match a failure."""
    failed = Names(ok="false", failed="true")
    return any(asked(case, failed, which, step) is not None for which in ("call", "exit"))


def names_event(case: Case) -> bool:
    return isinstance(case.when, str) and "event.name" in case.when.replace(" ", "")


def passes(cases: Sequence[Case], step: str) -> list[Which]:
    """The events that rules of the case name, in the order in which they come."""
    anything = Names(arc=True)
    order: tuple[Which, ...] = ("call", "exit")
    found = [which for which in order
             if any(names_event(case) and asked(case, anything, which, step) is not None for case in cases)]
    return found or ["call"]


def _is_of_success(case: Case, step: str) -> bool:
    assert isinstance(case.when, str)
    return not asks_for_errors(case.when) and not case.asks and (not names_event(case) or _needs_result(case, step))


def _needs_result(case: Case, step: str) -> bool:
    if case.collect is not None or case.answer is not None:
        return True
    put = [*case.set_ctx.values(), *case.set_iter.values(), *(sink for sink in case.sinks if get(sink, "when") is None)]
    put += [each for each in (case.next, case.retry, case.call) if each is not None]
    return any(_uses(text, step) for node in put for text in _texts(node))


def _uses(text: str, step: str) -> bool:
    return bool(free_names(text) & (_DATA | {step})) and not _TESTED.search(text)


def _texts(node: Node) -> Iterator[str]:
    if isinstance(node.value, str):
        yield node.value
    for below in [*listed(node), *(each for _, each in items(node))]:
        yield from _texts(below)


def tell(env: Env, cases: Sequence[Case], step: str) -> None:
    """Warns of a rule that leads on after a failure without a word about it, and notes where two rules act now."""
    cases = [case for case in cases if not case.enters]
    for case in cases:
        for name in sorted(constants(str(case.when), ("event", "name")) - _KNOWN):
            near = next(iter(get_close_matches(name, sorted(_KNOWN), 1)), "")
            env.warn(case.position, "DSL921", f"event.name is never {name[:60]!r}",
                     f"did you mean {near}?" if near else "one of: call.done, call.error, step.exit, loop.done")
        if _misses_failure(case):
            env.warn(case.position, "DSL930", "a rule that names no event is about successes: none has such a status",
                     "add: event.name == 'call.error' and")
        silent = isinstance(case.when, str) and _fits_exit(case.when) and not asks_for_errors(case.when)
        if case.leads and silent and may_fail(case, step) and not _tests_failure(str(case.when)):
            env.warn(case.position, "DSL931", f"the rule on step.exit leads on after a failure of {step[:60]!r} too",
                     "add: and response is defined, if it is about successes")
    if len(passes(cases, step)) > 1 and sum(bool(case.acts or case.leads) for case in cases) > 1:
        env.note(cases[0].position, f"rules of both events of step {step[:60]!r} act: the call's, then step.exit's",
                 "see whether a rule on step.exit is one that was passed over before")


def warn_of_iterations(env: Env, cases: Sequence[Case], step: str) -> None:
    """Where a loop leads is known once, at its end: what one iteration gave is not there."""
    for case in cases:
        if case.next is None or not isinstance(case.when, str) or not event_names(case.when) & (CALL_OK | CALL_FAILED):
            continue
        if free_names(case.when) & (_DATA | {step}) and not event_names(case.when) & CALL_FAILED:
            env.warn(case.position, "DSL903", "where a loop leads is decided once, by the result of the whole loop",
                     "name loop.done in the rule and read the list, or keep what it asks for with set")


def refuse_acts_of_loops(env: Env, cases: Sequence[Case]) -> None:
    """Rules act on each iteration, on a worker; the end of the loop is the router's, which leads on."""
    for case in cases:
        if case.acts and isinstance(case.when, str) and event_names(case.when) and event_names(case.when) <= _LOOP:
            env.error(case.position, "DSL301", "on loop.done a rule of a case can only lead on",
                      "write vars: {…} on the step, which are taken once of its result; store in the step it leads to")


def _misses_failure(case: Case) -> bool:
    """A status of 400 or more is a failed call's."""
    if not isinstance(case.when, str) or names_event(case) or case.asks or asks_for_errors(case.when):
        return False
    return reads_status(case.when) and _FAILURE.search(case.when) is not None


def _fits_exit(text: str) -> bool:
    """Whether a condition asks for a name of the exit, or for a part of one."""
    return any(each in name for each in event_names(text) for name in EXITS)


def _tests_failure(text: str) -> bool:
    return bool(free_names(text) & _DATA) or "event.error" in text.replace(" ", "")
