"""Where the rules of a `case` lead (FX §7.1, FS §8): arcs, in the order of the step's events.

A `next` of the rule that matched the call's event stands; otherwise that of the rule that matched `step.exit`;
otherwise, after a success, the step's own. Where the worker has asked the rules about a success, arcs read the number
of the rule. A failure is looked at here: the step may have failed where no rule was asked. That of a sink comes after
routing (FS §3.4), so no rule takes it but one that names `step.failed`. Nor does one take the failure of what rules,
retry policies and `vars` themselves ask or do: it is none of the call, and its handler would hide it.

A rule that only sends a token (`call`) leaves it to others where the step leads. A router takes one arc, so each arc
that may be taken at the same time stands there a second time, to the called step too."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shared.dsl.lower.build import has_policy
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
_ENDS = (FAILED, DONE, "loop.done")
_SUCCESS, _FAILURE = "event.error is none", "event.error is not none"


class Sent(Struct, frozen=True):
    """A token that a rule sends: on which event, and when."""

    which: Which
    number: int
    case: Case
    test: str


class Arcs:
    def __init__(self, parts: Parts, names: Names) -> None:
        self._parts, self._names = parts, replace(names, spelled=parts.env.edition > 3)
        self._of_call = list(_of_call(parts)) if parts.env.edition > 3 else []
        self._targets: dict[tuple[int, ...], Target | None] = {}
        self._sent: list[Sent] = []
        self.found: list[Node] = []
        self.steps: list[Node] = []

    def of_case(self, decided: str, stores: bool, called: Mapping[Which, str]) -> None:
        """`decided` is the key of ctx with the rule that leads on; `called` are those with the rules that send a token;
        `stores`: the step has sinks."""
        cases = [(number, case) for number, case in enumerate(self._parts.cases, 1) if not case.enters]
        events = passes([case for _, case in cases], self._parts.step)
        for which in events:
            self._sending(which, cases, called.get(which, ""), decided=bool(decided), stores=stores)
        if decided:
            for number, case in cases:
                self._add(number, case, "{{ event.error is none and ctx." + f"{decided} == {number}" + " }}")
        matched: list[str] = []  # by rules that lead nowhere: `else` is not for them
        for which in events:
            matched += self._pass(which, cases, failures=bool(decided), stores=stores)
        for number, case in cases:
            if case.when is None and not decided:
                self._add(number, case, _joined(["event.error is none", *matched], ""))

    def of_next(self, rest: Node | None) -> None:
        def add(where: list[Target]) -> None:
            step = self._parts.step
            for sent in self._together():
                self._lead(tuple(each.number for each in sent), where, sent, f"{step}_next", _SUCCESS)
            if where and not all(_always(self._sent, end) for end in _ENDS[1:]):
                self.found.append(arc(self._one(where, f"{step}_next", f"the next of step {step}")))

        if rest is not None:
            fallback(self._parts.env, rest, self.found, add, self._names)
        else:
            add([])
        for sent in self._together():  # after a failure the step's own `next` is not meant
            self._lead((*(each.number for each in sent), 0), [], sent, f"{self._parts.step}_sent", _FAILURE)

    def _together(self) -> list[tuple[Sent, ...]]:
        """The tokens that may be sent at one end of the step: a rule of each event acts."""
        pairs = [(one, other) for one in self._sent for other in self._sent
                 if one.which == "call" and other.which == "exit" and one.number != other.number]
        return [*pairs, *((each,) for each in self._sent)]

    def _sending(self, which: Which, cases: list[tuple[int, Case]], at: str, *, decided: bool, stores: bool) -> None:
        before: list[str] = []
        for number, case in cases:
            when = asked(case, self._names, which, self._parts.step)
            inner = expression(when) if isinstance(when, str) else None
            if inner is None or any(sent.number == number for sent in self._sent):
                continue
            if case.sends:
                only = _only(when, case, failures=decided, stores=stores, of_call=self._of_call)
                tests = [_joined([*before, *only], when)] if not decided or fires(when, FAILED) is not False else []
                tests += ["{{ event.error is none and ctx." + f"{at} == {number}" + " }}"] if at else []
                test = " or ".join(f"({expression(each)})" for each in tests)
                self._sent += [Sent(which, number, case, f"({test})")] if tests else []
            if case.retry is None and not self._parts.looped:
                before.append(f"not ({inner})")

    def _lead(
        self, numbers: tuple[int, ...], where: list[Target], sent: tuple[Sent, ...], label: str, when: str
    ) -> None:
        """An arc to these steps and to those that are called."""
        tests = [each.test for each in sent]
        text = "{{ " + " and ".join([*tests, *([f"({when})"] if when else [])]) + " }}"
        ends = (FAILED,) if when == _FAILURE else _ENDS[1:] if when == _SUCCESS else _ENDS
        if not any(fires(text, end) is not False for end in ends):
            return
        if numbers not in self._targets:
            more = [target for each in sent if each.case.call is not None
                    for target in targets(self._parts.env, each.case.call, self._names)]
            rules = " and ".join(str(each.number) for each in sent)
            self._targets[numbers] = self._one(
                [*more, *where], "_".join([label, *(str(each.number) for each in sent)]),
                f"what rule {rules} of the case of step {self._parts.step} calls") if more else None
        target, case = self._targets[numbers], sent[0].case
        if target is not None:
            self.found.append(arc(target, build(case.position, Text(text, written_of(str(case.when))))))

    def _pass(self, which: Which, cases: list[tuple[int, Case]], *, failures: bool, stores: bool) -> list[str]:
        before: list[str] = []
        for number, case in cases:
            when = asked(case, self._names, which, self._parts.step)
            if when is None or (failures and fires(when, FAILED) is False):
                continue
            if case.next is not None:
                only = _only(when, case, failures=failures, stores=stores, of_call=self._of_call)
                self._add(number, case, _joined([*before, *only], when))
            elif case.retry is None and not self._parts.looped and (inner := expression(when)) is not None:
                before.append(f"not ({inner})")
        return before

    def _add(self, number: int, case: Case, when: Any) -> None:
        if case.next is None:
            return
        step, others = self._parts.step, [each for each in self._sent if each.number != number]
        inner = expression(when)
        for sent in others if inner else ():
            where = targets(self._parts.env, case.next, self._names)
            self._lead((number, sent.number), where, (sent,), f"{step}_case_{number}", inner or "")
        if _covered(when, others):
            return
        if (number,) not in self._targets:
            where = targets(self._parts.env, case.next, self._names)
            self._targets[number,] = self._one(
                where, f"{step}_case_{number}", f"rule {number} of the case of step {step}") if where else None
        target = self._targets[number,]
        if target is not None:
            text = Text(when, written_of(case.when)) if isinstance(case.when, str) else when
            self.found.append(arc(target, build(case.position, text)))

    def _one(self, where: list[Target], label: str, what: str) -> Target:
        target, generated = fan_out(self._parts.env, where, label, what)
        self.steps += [generated] if generated is not None else []
        return target


def _only(when: str, case: Case, *, failures: bool, stores: bool, of_call: list[str]) -> Iterator[str]:
    """What an arc asks beside the condition of its rule."""
    if failures and fires(when, DONE) is not False:
        yield "event.error is not none"
    if fires(when, FAILED) is False or FAILED in event_names(str(case.when)):
        return
    if stores:
        yield "event.error.sink is not defined"
    yield from of_call


def _of_call(parts: Parts) -> Iterator[str]:
    """What tells a failure of the call from one of what was generated around it, or of rules that cannot be asked."""
    asked = parts.retried or any(has_policy(task) for task in parts.tasks)
    if parts.around:
        yield f"event.error.task not in {parts.around}"
    if parts.around or asked:
        yield "event.error.rule_error is not defined"
    if asked:
        yield "event.error.call is not defined"


def _covered(when: str, sent: list[Sent]) -> bool:
    """Whether a token is sent at every end at which the condition may hold: then no arc is taken without it."""
    return bool(sent) and all(_always(sent, end) for end in _ENDS if fires(when, end) is not False)


def _always(sent: list[Sent], end: str) -> bool:
    return any(fires("{{ " + each.test + " }}", end) for each in sent)


def _joined(tests: list[str], when: str) -> str:
    inner = expression(when) if when else ""
    if not tests or inner is None:
        return when
    return "{{ " + " and ".join([*tests, *([f"({inner})"] if inner else [])]) + " }}"


def lead_by_failure(parts: Parts) -> bool:
    """Whether a rule leads on after a failure."""
    return any(case.leads and may_fail(case, parts.step) for case in parts.cases)


def has_sinks(parts: Parts) -> bool:
    return bool(parts.sinks) or any(case.sinks for case in parts.cases) or any(
        get(each, "then", "sink") is not None for each in parts.policies)
