"""Where several tokens meet: which of them enters its step next, and which end there.

1. `all` (default): tokens wait while another live token or run can still reach the step; then they enter as one.
2. `each`: every token enters on its own, at once.
3. `any`: the first token of a wave enters at once. A number: that many tokens of a wave enter as one.
4. A wave is what comes to the step without descending from its latest run. Once it has entered, the rest of it is
   absorbed; a token that descends from that run belongs to the next wave. Waves are told apart by descent and not by
   time, so the answer follows from the log and is the same in a cycle.
5. When too few can come for a number, those that wait are rejected: entering with fewer would make a number mean `all`.
6. When every token waits and nothing runs, the earliest at an `all` enters; if there is none, the tokens of the
   earliest step are rejected. Without this rule two joins that can reach each other would wait for each other for ever.

Every token enters or ends: that is what lets an execution finish. A pure function of plan and state; it gives one move
at a time, because each changes what follows.
"""

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from shared.dsl.model.plan import Plan, Step
from shared.engine.routing.state import Execution, Token


class Move(Struct, frozen=True):
    """Tokens of one step that enter it together, or end there."""

    do: Literal["enter", "absorb", "reject"]
    step: Step
    tokens: tuple[Token, ...]


def args_of(tokens: Iterable[Token]) -> dict[str, Any]:
    """Merged in the order in which they came."""
    args: dict[str, Any] = {}
    for token in tokens:
        args.update(token.args)
    return args


def next_move(plan: Plan, state: Execution) -> Move | None:
    if not state.tokens:
        return None
    if len(state.tokens) == 1 and not state.runs:  # by far the most frequent: nothing else can come
        alone = [*state.tokens.values()]
        step = plan.steps[alone[0].step]
        return _at_once(step, alone, state) or _settle(step, alone)
    places: dict[str, list[Token]] = {}
    for token in state.tokens.values():
        places.setdefault(token.step, []).append(token)
    busy = {run.step for run in state.runs.values()}
    waiting: list[tuple[Step, list[Token]]] = []
    for name, tokens in places.items():
        step = plan.steps[name]
        if (move := _at_once(step, tokens, state)) is not None:
            return move
        others = busy.union(other for other in places if other != name)
        if not any(name in plan.reach[other] for other in others):
            return _settle(step, tokens)
        waiting.append((step, tokens))
    if busy:
        return None
    return _settle(*next((each for each in waiting if each[0].join == "all"), waiting[0]))


def wave_of(step: Step, state: Execution) -> int:
    """The wave that enters next; 0 for a step that has no waves."""
    return 0 if step.join == "all" or step.join == "each" else state.counts.get(step.name, 0) + 1


def _at_once(step: Step, tokens: list[Token], state: Execution) -> Move | None:
    """The move that need not wait for other tokens, if there is one."""
    if step.join == "all":
        return None
    if step.join == "each":
        return Move("enter", step, tuple(tokens[:1]))
    latest = state.counts.get(step.name, 0)
    late = tuple(token for token in tokens if token.past.get(step.name, 0) < latest)
    if late:
        return Move("absorb", step, late)
    needed = 1 if step.join == "any" else int(step.join)
    return Move("enter", step, tuple(tokens[:needed])) if len(tokens) >= needed else None


def _settle(step: Step, tokens: list[Token]) -> Move:
    """What becomes of the tokens when no other can come."""
    return Move("enter" if step.join == "all" else "reject", step, tuple(tokens))
