"""What comes behind the main task of a formal step, in the order of FS §3.4:

    <step>_vars    noop: writes `vars` and `set`
    <step>_case    noop: the rules of `case` on the first event that any of them names, the first match acts
    <step>_exit    noop: the same on `step.exit`, if rules name both
    <step>_store   noop: to the sinks of the rules that matched, those of the call's event first
    <step>_sink    the sinks of the step and of its retry policies
    <step>_done    noop, the merge point: the step's result is the main task's, its failure the main task's error

Sinks run after it is known where the step leads. A failed one fails the step, and does not take the place of a failure
that came before it."""

from typing import Any

from shared.dsl.lower.build import ERROR, directive, noop, otherwise, renamed_patch, rule, sink_task
from shared.dsl.lower.case import Case
from shared.dsl.lower.formal.arcs import has_sinks, lead_by_failure
from shared.dsl.lower.formal.events import Which, asked, passes
from shared.dsl.lower.formal_tail import Parts, collects, ending, patches, repeats
from shared.dsl.lower.name_meanings import key
from shared.dsl.lower.names import Names, expression
from shared.dsl.lower.nodes import build, get, text_of
from shared.dsl.source.nodes import Node


def decided(parts: Parts) -> str:
    """The key of ctx that tells arcs which rule leads on after a success, where the worker knows. In a loop rules match
    once per iteration, and arcs once at its end."""
    leads = any(case.leads for case in parts.cases if not case.enters)
    return key(parts.step, "rule") if leads and not parts.looped and on_worker(parts) else ""


def on_worker(parts: Parts) -> bool:
    """Whether the worker asks the rules: they do something, or the step stores when it is known where it leads, or it
    collects, and the last response is the worker's alone."""
    cases = [case for case in parts.cases if not case.enters]
    leads = not parts.looped and any(case.leads for case in cases)
    known_here = has_sinks(parts) or (parts.env.edition > 3 and repeats(parts) and collects(parts))
    return any(case.acts for case in cases) or bool(leads and known_here)


def sending_keys(parts: Parts) -> dict[Which, str]:
    """The keys of ctx that tell arcs which rule on an event sends a token after a success, where the worker knows."""
    found = [which for which in _events(parts) if any(
        case.sends and asked(case, parts.after(errors=True), which, parts.step) is not None for case in parts.cases)]
    return {which: key(parts.step, f"sent_on_{which}") for which in found} if decided(parts) else {}


def _asked_cases(parts: Parts) -> list[tuple[int, Case]]:
    return [(number, case) for number, case in enumerate(parts.cases, 1)
            if not case.enters and (case.acts or case.retry is None or case.leads)]


def _events(parts: Parts) -> list[Which]:
    """Those that the worker asks the rules about."""
    cases = [case for _, case in _asked_cases(parts)]
    seen, all_events = parts.after(errors=True), passes(cases, parts.step)
    return [which for which in all_events if any(
        asked(case, seen, which, parts.step) is not None for case in cases)] or all_events[:1]


def behind(parts: Parts) -> tuple[list[Node], dict[str, str]]:
    """All tasks behind the main one, and the labels that others jump to."""
    return _Tail(parts).tasks()


class _Tail:
    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.at = parts.node.position
        self.cases, self.events, self.called = _asked_cases(parts), _events(parts), sending_keys(parts)
        self.sinks = [*parts.sinks, *(sink for each in parts.policies
                                      if (sink := get(each, "then", "sink")) is not None)]
        self.stored = [(number, case) for number, case in self.cases if case.sinks]
        acting = on_worker(parts)
        self.hub = parts.label("vars", "what is set at the end") if parts.set_ctx or parts.set_iter else ""
        self.case = parts.label("case", "the case") if acting else ""
        several = len(parts.tasks) > 1 or len(self.sinks) > 1
        self.keep = parts.label("keep", "the way to the sink") if several and self.sinks and not (
            self.hub or self.case) else ""
        self.way = parts.label("store", "the way to the sinks") if self.stored or (
            acting and parts.errors and self.sinks) else ""
        self.done = parts.label("done", "the end") if acting or self.sinks or repeats(parts) else ""
        self.keeper = self.hub or self.case or self.keep or parts.main

    def tasks(self) -> tuple[list[Node], dict[str, str]]:
        parts, found = self.parts, list[Node]()
        if self.hub:
            names = parts.after()
            found.append(noop(self.at, self.hub, [otherwise(directive(
                "continue", set_ctx=renamed_patch(parts.set_ctx, names),
                set_iter=renamed_patch(parts.set_iter, names), result="_prev"))]))
        if self.case:
            found += self._rules()
        if self.keep:
            found.append(noop(self.at, self.keep, [otherwise(directive("continue", result="_prev"))]))
        stores = self._stores()
        if self.way:
            found += self._way(text_of(get(stores[0], "name")) if stores else self.done)
        found += stores
        if self.done:
            found.append(ending(parts, self.done, self.keeper))
        return found, {"hub": text_of(get(found[0], "name")) if found else "", "case": self.case}

    # -- the rules

    def _rules(self) -> list[Node]:
        """One task for each event that rules name."""
        labels = [self.case, *(self.parts.label("exit", "the case on step.exit") for _ in self.events[1:])]
        return [noop(self.at, label, self._pass(which, first=not place, last=which == self.events[-1]))
                for place, (label, which) in enumerate(zip(labels, self.events, strict=True))]

    def _pass(self, which: Which, *, first: bool, last: bool) -> list[dict[str, Any]]:
        parts, names = self.parts, self.parts.after(errors=self.parts.errors)
        rules = []
        for number, case in self.cases:
            when = asked(case, names, which, parts.step)
            if when is None:
                continue
            if not first and asked(case, names, self.events[0], parts.step) is not None:  # a rule acts once
                inner = expression(when)
                again = "{{ iter." + f"{self._matched(self.events[0])} == {number}" + (
                    f" and ({inner})" if inner else "") + " }}"
                rules.append(rule(again, self._nothing(which, first=first)))
            rules.append(rule(build(case.position, when), self._acts(number, case, names, which, first=first)))
        for number, case in self.cases if last else ():
            if case.when is None:
                tests = [names.ok, *([] if first else [f"iter.{self._matched(self.events[0])} == 0"])]
                rules.append(rule("{{ " + " and ".join(tests) + " }}",
                                  self._acts(number, case, names, which, first=first)))
        return [*rules, otherwise(self._nothing(which, first=first))]

    def _matched(self, which: Which) -> str:
        """The key of `iter` with the number of the rule that acts on an event."""
        return key(self.parts.step, f"on_{which}")

    def _nothing(self, which: Which, *, first: bool) -> dict[str, Any]:
        at = decided(self.parts)
        return directive("continue", result="_prev", set_iter=self._number(which, 0),
                         set_ctx={**({at: 0} if at and first else {}), **self._sent(which, 0)})

    def _sent(self, which: Which, number: int) -> dict[str, Any]:
        return {self.called[which]: number} if which in self.called else {}

    def _number(self, which: Which, number: int) -> dict[str, Any]:
        return {self._matched(which): number} if self.stored or len(self.events) > 1 else {}

    def _acts(self, number: int, case: Case, names: Names, which: Which, *, first: bool) -> dict[str, Any]:
        parts, at = self.parts, decided(self.parts)
        to_iter, to_ctx = patches(parts, case, names)
        to_iter |= self._number(which, number)
        if at and first:
            to_ctx[at] = number if case.next is not None else 0
        elif at and case.next is not None:
            to_ctx[at] = "{{ ctx." + at + " or " + str(number) + " }}"  # what the call's event chose stands
        to_ctx |= self._sent(which, number if case.sends else 0)
        return directive("continue", result="_prev", set_ctx=to_ctx, set_iter=to_iter)

    # -- the sinks

    def _way(self, past: str) -> list[Node]:
        """Each sink leads back here, until those of both events are done."""
        branches = {number: self._branch(number, case) for number, case in self.stored}
        rules = [rule("{{ iter." + f"{self._matched(which)} == {number}" + " }}",
                      directive("jump", to=text_of(get(branches[number][0], "name")), result="_prev",
                                set_iter={self._matched(which): 0}))
                 for which in self.events for number, _ in self.stored if branches[number]]
        if self.parts.errors and past != self.done:
            rules.append(rule("{{ iter." + key(self.parts.step, "error") + " is defined }}",
                              directive("jump", to=self.done)))
        rules.append(otherwise(directive("jump", to=past, result="_prev")))
        return [noop(self.at, self.way, rules), *(task for branch in branches.values() for task in branch)]

    def _branch(self, number: int, case: Case) -> list[Node]:
        parts = self.parts
        names = parts.after(errors=parts.errors, view=self.keeper)
        labels = [parts.label(f"case_{number}_sink", f"a sink of rule {number}") for _ in case.sinks]
        return self._chain(case.sinks, labels, [names] * len(labels), self.way)

    def _stores(self) -> list[Node]:
        """The sinks of the step and those of its retry policies, one after the other."""
        parts = self.parts
        labels = [parts.label("sink", "a sink") for _ in self.sinks]
        generated = self.hub or self.case or self.keep
        plain = parts.after(view=generated or "_prev")
        last = parts.after(view=generated or "_prev", page=True)
        paged = Names({**last.plain, "page": last.plain["response"]}, last.dotted, last.ok, last.failed)
        names = [plain if place < len(parts.sinks) else paged for place in range(len(labels))]
        return self._chain(self.sinks, labels, names, self.done)

    def _chain(self, sinks: list[Node], labels: list[str], names: list[Names], to: str) -> list[Node]:
        found: list[Node] = []
        for sink, label, seen in reversed(list(zip(sinks, labels, names, strict=True))):
            on = text_of(get(found[0], "name")) if found else to
            found = sink_task(self.parts.env, sink, label, seen, directive("jump", to=on), self._fails()) + found
        return found

    def _fails(self) -> list[dict[str, Any]]:
        """The failure of a sink says which it was; before the fourth edition only where a rule could take it for the
        call's."""
        error = f"iter.{key(self.parts.step, 'error')}"
        found = [rule("{{ outcome.status == 'error' and " + error + " is defined }}", directive(
            "fail", error="{{ dict(" + error + ", sink=_task, sink_error=outcome.error) }}"))]
        marked = rule(ERROR, directive("fail", error="{{ dict(outcome.error, sink=_task) }}"))
        plain = rule(ERROR, directive("fail"))
        says = self.parts.env.edition > 3 or lead_by_failure(self.parts)
        return [*(found if self.parts.errors else []), marked if says else plain]
