"""Tokens that were refused, and by which rule with which values; tokens that wait where several meet."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from shared.answers.rehearsal.conditions import held
from shared.answers.why.facts import Reason
from shared.answers.why.remedies import remedy
from shared.dsl.model.plan import EVERYTHING, AdmitRule, Plan
from shared.dsl.templates.needs import names_used
from shared.engine.routing.decide import names_at_entry
from shared.engine.routing.joins import next_move
from shared.engine.routing.state import Execution, apply, draft
from shared.engine.values.stored_values import Values
from shared.events import model as ev
from shared.events.record import Record

UNDEFINED = "(undefined)"


class Denial(Struct, frozen=True):
    """Tokens that did not enter a step. `rules` are those that were asked, in order."""

    step: str
    tokens: tuple[str, ...]
    rule: int
    reason: str
    at: str
    line: int = 0
    rules: list[dict[str, Any]] = []


def denials(plan: Plan, state: Execution, record: Record, values: Values) -> list[Denial]:
    """Those of one decision; the rules are asked again with the state as it was at that event."""
    found: list[Denial] = []
    work, joined, told = draft(state), tuple[str, ...](), set[str]()
    for event in record.events:
        if isinstance(event, ev.TokenJoined):
            joined = event.tokens
        if isinstance(event, ev.TokenRejected) and event.token_id not in told:
            tokens = joined if event.token_id in joined else (event.token_id,)
            told.update(tokens)
            found.append(_denial(plan, work, event, tokens, record.ts, values))
        apply(work, event, record.ts)
    return found


def _denial(
    plan: Plan, state: Execution, event: ev.TokenRejected, tokens: tuple[str, ...], at: str, values: Values
) -> Denial:
    step = plan.steps[event.step]
    if event.reason:
        return Denial(step.name, tokens, -1, event.reason, at, step.line)
    names = names_at_entry(plan, state, step, tokens, values)
    asked = step.admit[: event.rule + 1] if event.rule >= 0 else step.admit
    rules = [_asked(number, rule, names) for number, rule in enumerate(asked)]
    return Denial(step.name, tokens, event.rule, "", at, step.line, rules)


def _asked(number: int, rule: AdmitRule, names: dict[str, Any]) -> dict[str, Any]:
    found = held(rule.when, names)
    values = {**found["values"], **dict.fromkeys(_missing(rule.when, names), UNDEFINED)}
    return {"rule": number, "line": rule.line, "allow": rule.allow, **found, "values": values}


def _missing(condition: Any, names: dict[str, Any]) -> list[str]:
    """What the condition reads and is not there."""
    needs = names_used(condition)
    found = sorted(name for name in needs.names if name not in names)
    for space, keys in (("ctx", needs.ctx), ("workload", needs.workload)):
        found += [f"{space}.{key}" for key in sorted(keys - {EVERYTHING}) if key not in names[space]]
    return found


def denied(found: list[Denial]) -> Iterator[Reason]:
    for denial in found:
        if denial.reason:
            yield Reason(
                "join.too_few", "denied", f"step {denial.step} was not entered: {denial.reason}", denial.step,
                values={"tokens": list(denial.tokens), "line": denial.line}, since=denial.at,
                remedy=remedy("change_join", step=denial.step),
            )
        else:
            values = {"tokens": list(denial.tokens), "rule": denial.rule, "line": denial.line, "rules": denial.rules}
            yield Reason(
                "admission.denied", "denied", f"step {denial.step} was not entered: {_decided(denial)}", denial.step,
                values=values, since=denial.at,
                remedy=remedy("change_rule"),
            )


def _decided(denial: Denial) -> str:
    if denial.rule < 0:
        read = "; ".join(f"{rule['when']} is false{_read(rule)}" for rule in denial.rules)
        return f"none of its {len(denial.rules)} admission rules holds ({read})"
    rule = denial.rules[-1]
    false = [each for each in denial.rules[:-1] if each["allow"]]
    why = "".join(f", after {each['when']} was false{_read(each)}" for each in false)
    which = f"rule {denial.rule} of admit (line {rule['line']}), {rule['when'] or 'else'}"
    return f"{which}, says allow: false{_read(rule)}{why}"


def _read(rule: dict[str, Any]) -> str:
    return "".join(f", {path} = {value!r}" for path, value in rule["values"].items())


def waiting(plan: Plan, state: Execution, since: dict[str, str]) -> Iterator[Reason]:
    """Where tokens wait for others. A place whose tokens could move is not waited at: its router is late."""
    if not state.tokens or next_move(plan, state) is not None:
        return
    places: dict[str, list[str]] = {}
    for token in state.tokens.values():
        places.setdefault(token.step, []).append(token.token_id)
    for name, tokens in places.items():
        runs = [run.run_id for run in state.runs.values() if name in plan.reach[run.step]]
        others = [token.token_id for token in state.tokens.values()
                  if token.step != name and name in plan.reach[token.step]]
        step = plan.steps[name]
        coming = ", ".join([*(f"run {run}" for run in runs), *(f"token {token}" for token in others)])
        yield Reason(
            "join.waits", "blocked",
            f"{len(tokens)} token{'s' if len(tokens) > 1 else ''} wait{'' if len(tokens) > 1 else 's'} at step {name} "
            f"(join: {step.join}) for what can still reach it: {coming}", name,
            values={"join": step.join, "tokens": tokens, "runs": runs, "others": others, "line": step.line},
            since=min((since[token] for token in tokens if token in since), default=""),
            remedy=remedy("join_completes", coming=coming),
        )
