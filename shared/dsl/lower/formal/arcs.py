"""Where the rules of a `case` lead (FX §7.1, FS §8): arcs, in the order of the step's events.

A `next` of the rule that matched the call's event stands; otherwise that of the rule that matched `step.exit`;
otherwise, after a success, the step's own. Where the worker has asked the rules about a success, arcs read the number
of the rule. A failure is looked at here: the step may have failed where no rule was asked. That of a sink comes after
routing (FS §3.4), so no rule takes it but one that names `step.failed`. Nor does one take the failure of what rules and
`vars` themselves do: it is none of the call, and its handler would hide it."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from shared.dsl.lower.case import Case, fallback
from shared.dsl.lower.formal.events import Which, asked, may_fail, passes
from shared.dsl.lower.formal_tail import Parts
from shared.dsl.lower.names import Names, event_names, expression, written_of
from shared.dsl.lower.next import Target, arc, fan_out, targets
from shared.dsl.lower.nodes import build, get
from shared.dsl.model.texts import Text
from shared.dsl.source.nodes import Node
from shared.dsl.templates.conditions import FAILED, fires

DONE = "step.done"


class Arcs:
    def __init__(self, parts: Parts, names: Names) -> None:
        self._parts, self._names = parts, replace(names, spelled=parts.env.edition > 3)
        self._around = parts.around if parts.env.edition > 3 else []
        self._targets: dict[int, Target | None] = {}
        self.found: list[Node] = []
        self.steps: list[Node] = []

    def of_case(self, decided: str, stores: bool) -> None:
        """`decided` is the key of ctx with the rule that leads on; `stores`: the step has sinks."""
        cases = [(number, case) for number, case in enumerate(self._parts.cases, 1) if not case.enters]
        if decided:
            for number, case in cases:
                self._add(number, case, "{{ event.error is none and ctx." + f"{decided} == {number}" + " }}")
        matched: list[str] = []  # by rules that lead nowhere: `else` is not for them
        for which in passes([case for _, case in cases], self._parts.step):
            matched += self._pass(which, cases, failures=bool(decided), stores=stores)
        for number, case in cases:
            if case.when is None and not decided:
                self._add(number, case, _joined(["event.error is none", *matched], ""))

    def of_next(self, rest: Node) -> None:
        def add(where: list[Target]) -> None:
            if where:
                step = self._parts.step
                self.found.append(arc(self._one(where, f"{step}_next", f"the next of step {step}")))

        fallback(self._parts.env, rest, self.found, add, self._names)

    def _pass(self, which: Which, cases: list[tuple[int, Case]], *, failures: bool, stores: bool) -> list[str]:
        before: list[str] = []
        for number, case in cases:
            when = asked(case, self._names, which, self._parts.step)
            if when is None or (failures and fires(when, FAILED) is False):
                continue
            if case.next is not None:
                only = _only(when, case, failures=failures, stores=stores, around=self._around)
                self._add(number, case, _joined([*before, *only], when))
            elif case.retry is None and not self._parts.looped and (inner := expression(when)) is not None:
                before.append(f"not ({inner})")
        return before

    def _add(self, number: int, case: Case, when: Any) -> None:
        if case.next is None:
            return
        if number not in self._targets:
            step, where = self._parts.step, targets(self._parts.env, case.next, self._names)
            self._targets[number] = self._one(
                where, f"{step}_case_{number}", f"rule {number} of the case of step {step}") if where else None
        target = self._targets[number]
        if target is not None:
            text = Text(when, written_of(case.when)) if isinstance(case.when, str) else when
            self.found.append(arc(target, build(case.position, text)))

    def _one(self, where: list[Target], label: str, what: str) -> Target:
        target, generated = fan_out(self._parts.env, where, label, what)
        self.steps += [generated] if generated is not None else []
        return target


def _only(when: str, case: Case, *, failures: bool, stores: bool, around: list[str]) -> Iterator[str]:
    """What an arc asks beside the condition of its rule."""
    if failures and fires(when, DONE) is not False:
        yield "event.error is not none"
    if fires(when, FAILED) is False or FAILED in event_names(str(case.when)):
        return
    if stores:
        yield "event.error.sink is not defined"
    if around:
        yield f"event.error.task not in {around}"


def _joined(tests: list[str], when: str) -> str:
    inner = expression(when) if when else ""
    if not tests or inner is None:
        return when
    return "{{ " + " and ".join([*tests, *([f"({inner})"] if inner else [])]) + " }}"


def lead_by_failure(parts: Parts) -> bool:
    """Whether a rule leads on after a failure."""
    return any(case.next is not None and may_fail(case, parts.step) for case in parts.cases)


def has_sinks(parts: Parts) -> bool:
    return bool(parts.sinks) or any(case.sinks for case in parts.cases) or any(
        get(each, "then", "sink") is not None for each in parts.policies)
