"""Checks of the routing: arcs that never match, failures that no arc handles, and what the token net
allows (`token_net.py`)."""

from shared.dsl.check import token_net
from shared.dsl.check.join_net import too_few
from shared.dsl.check.plan_paths import Sites, listed
from shared.dsl.model.plan import Plan, Step
from shared.dsl.read.reader import Reader, short
from shared.dsl.templates.conditions import FAILED, fires, truth
from shared.events.aliases import FORMER


def check_net(reader: Reader, plan: Plan, sites: Sites) -> None:
    for step in plan.steps.values():
        _arcs(reader, step, sites)
        _best_effort(reader, step, sites)
    for name, most in too_few(plan):
        at = (*sites.step(name), "spec", "policy", "admit", "join")
        waits = f"{short(name)} waits for {plan.steps[name].join} tokens"
        reader.value(at, "DSL919", f"{waits}, and at most {most} can come",
                     f"write join: {most}" if most > 1 else "write join: all", warning=True)
    found = token_net.analyse(plan)
    _unreachable(reader, plan, sites, found.runs)
    for verdict, code, message, fix in (
        (found.ends, "DSL909", "a token that comes to {} can only end by a failure",
         "add an arc that leads out, or a when to one that leads back"),
        (found.bounded, "DSL907", "a cycle can put tokens on {} again and again before it runs",
         "make the router of the cycle exclusive, or let the arcs exclude each other"),
        (found.waits, "DSL908", "tokens at {} can wait for each other; then the first to come goes on alone",
         "lead the branches out of the cycle and join them before it goes on"),
    ):
        if verdict.answer == "possible":
            first = verdict.steps[0]
            reader.value((*sites.step(first), "step"), code, message.format(listed(verdict.steps)), fix, warning=True)


def check_failures(reader: Reader, plan: Plan, sites: Sites) -> None:
    """Arcs that took failures in the first edition of the language and take none now, and those that take them since
    the third."""
    for step in plan.steps.values():
        for index, arc in enumerate(step.arcs if step.tasks else ()):
            if arc.when is not None and not arc.on_failure and truth(arc.when) is not False:
                reader.value(sites.arc(step.name, index), "DSL930",
                             f"the arc to {short(arc.step)} takes no failure of {short(step.name)}",
                             "nothing, if it is about successes; else read event in its when", warning=True)
            elif isinstance(arc.when, str) and _takes_more(arc.when):
                reader.value(sites.arc(step.name, index), "DSL931",
                             f"the arc to {short(arc.step)} takes a failure of {short(step.name)} too",
                             "nothing, if it is about any end; else add event.error is none", warning=True)


def _takes_more(when: str) -> bool:
    """Whether it can take a failure by a name that was a success's before."""
    before = truth(when, {("event", "name"): FORMER[FAILED], ("event", "error"): True})
    return before is False and fires(when, FAILED) is not False


def _unreachable(reader: Reader, plan: Plan, sites: Sites, verdict: token_net.Verdict) -> None:
    """A step behind an arc that never matches is not reported again: its arc is."""
    for name in verdict.steps:
        at = (*sites.step(name), "step")
        if name != plan.start and name not in plan.reach[plan.start]:
            reader.value(at, "DSL902", f"no arcs lead from start to {short(name)}", "add an arc to it, or remove it",
                         warning=True)
        elif not token_net.admits(plan.steps[name])[0]:
            reader.value(at, "DSL902", f"admission refuses every token at {short(name)}",
                         "add a rule with then: {allow: true}", warning=True)


def _arcs(reader: Reader, step: Step, sites: Sites) -> None:
    """An arc is dead if it can match no event; in an exclusive router an earlier one may match all of them."""
    taken = {event: {index for index, _ in token_net.takers(step, event)} for event in token_net.events(step)}
    fitting = [[fires(arc.when, event) for arc in step.arcs] for event in token_net.events(step)]
    first: dict[str, int] = {}
    for index, arc in enumerate(step.arcs):
        by = [event for event, arcs in taken.items() if index in arcs]
        twin = first.setdefault(arc.when, index) if isinstance(arc.when, str) else index
        if step.mode == "exclusive" and twin != index:
            _shadowed(reader, step, sites, index, twin)
        elif not by:
            before = _shadow(step, index, fitting)
            if before is not None:
                _shadowed(reader, step, sites, index, before)
            else:
                reader.value(sites.arc(step.name, index), "DSL904",
                             f"the arc to {short(arc.step)} is never taken: no end of this step fits its when",
                             "mend its when, or remove the arc", warning=True)


def _shadow(step: Step, index: int, fitting: list[list[bool | None]]) -> int | None:
    """The first earlier arc of an exclusive router that matches what this one is for."""
    if step.mode != "exclusive":
        return None
    return next((before for before in range(index)
                 if any(fits[before] and fits[index] is not False for fits in fitting)), None)


def _shadowed(reader: Reader, step: Step, sites: Sites, index: int, before: int) -> None:
    line = reader.document.node(sites.arc(step.name, before)).position.line
    reader.value(sites.arc(step.name, index), "DSL904",
                 f"the arc to {short(step.arcs[index].step)} is shadowed by the one on line {line}",
                 "move it before that arc, or write mode: inclusive", warning=True)


def _best_effort(reader: Reader, step: Step, sites: Sites) -> None:
    if step.failure != "best_effort" or step.loop is None or token_net.takers(step, FAILED):
        return
    path = (*sites.step(step.name), "spec", "policy", "failure", "mode")
    reader.value(path, "DSL905", f"a failure of the loop of {short(step.name)} as a whole fails the execution",
                 "add an arc with when: \"{{ event.name == 'step.failed' }}\"", warning=True)
