"""Why is it not running? Every reason that an execution has not gone on, from its log and from what is known of the
world around it. The same folds and deciders that run it are asked: what they would send or write now, and who does
not let them.

1. What is over says how it ended, which iterations failed all the same and which steps it never came to; a request
   that was refused, why.
2. What a worker should have by the log is with one, or waits in its pool, or for its turn.
3. What waits without a worker says for what: a time, a signal, a child, an attempt, a place of a key.
4. Loops whose window is full, tokens that wait for others, and tokens that were refused.
5. What its router or scheduler would decide now, and has not.

The codes of causes are documented in `docs/cli.md`, and stay as they are.
"""

from collections.abc import Iterator

from shared.answers.why import clocks as why_clocks
from shared.answers.why import dead_ends as why_dead_ends
from shared.answers.why import execution as why_control
from shared.answers.why import limits as why_limits
from shared.answers.why import loops as why_loops
from shared.answers.why import pauses as why_pauses
from shared.answers.why import runs as why_runs
from shared.answers.why import tokens as why_tokens
from shared.answers.why import waits as why_waits
from shared.answers.why.facts import Answer, Reason, World
from shared.answers.why.pools import PATIENCE_S
from shared.answers.why.remedies import remedy
from shared.answers.why.view import Plans, View
from shared.dsl.model.edition import source_of
from shared.engine.routing.state import is_over
from shared.engine.scheduling import decide as scheduling
from shared.engine.values.stored_values import Values
from shared.events.command import Command
from shared.events.stamp import seconds, stamp

ORDER = {"over": 0, "blocked": 1, "running": 2, "denied": 3, "note": 4}
MAX_REASONS = 200
NO_VALUES: Values = {}


def explain(view: View, world: World, plans: Plans, values: Values = NO_VALUES) -> Answer:
    """May raise what `plans` and missing values raise: bring it and ask again."""
    return _answer(view, why_loops.merged(_reasons(view, world, plans, values)))


def without_source(view: View, world: World, error: str) -> Answer:
    """What can be said when the playbook is not there: `view` is folded without it."""
    reasons = list(why_control.over(view))
    if not reasons:
        reasons.append(Reason(
            "playbook.gone", "blocked", f"no service goes on with it: {error}",
            values={"digest": source_of(view.state.digest)}, remedy=remedy("register_same"),
        ))
        reasons += [*why_pauses.paused(view, None), *why_control.held_up(view), *why_waits.waits(view, world)]
    return _answer(view, reasons)


def _answer(view: View, reasons: list[Reason]) -> Answer:
    reasons.sort(key=lambda reason: ORDER[reason.kind])
    if len(reasons) > MAX_REASONS:
        text = f"{len(reasons) - MAX_REASONS} more reasons are not listed"
        reasons = [*reasons[:MAX_REASONS], Reason("more", "note", text)]
    status = "paused" if view.state.paused else view.state.status
    return Answer(view.execution_id, status, tuple(reasons), view.path, view.by, view.started, view.last)


def _reasons(view: View, world: World, plans: Plans, values: Values) -> Iterator[Reason]:
    yield from why_control.over(view)
    yield from why_tokens.denied(view.denials)
    if is_over(view.state):
        yield from why_loops.tolerated(view)
        yield from why_dead_ends.not_reached(view.dead_ends, frozenset(view.entered))
        return
    yield from why_pauses.paused(view, world)
    yield from why_control.held_up(view)
    yield from why_control.late(view, world, why_control.undecided(view, plans, world.now, values))
    yield from why_limits.waiting(view, world, why_limits.wanted(view, plans, values))
    yield from why_waits.waits(view, world)
    for command in _commands(view, plans, values):
        yield why_runs.due(view, world, command)
    yield from why_loops.windows(view)
    if view.plan is not None:
        yield from why_tokens.waiting(view.plan, view.state, view.times)
    yield from _deadlines(view)
    yield from why_clocks.skewed(world)


def _deadlines(view: View) -> Iterator[Reason]:
    """What time will end."""
    for event, deadline in scheduling.deadlines(view.schedule):
        text = f"{event.run_id} fails, kind timeout, if it is not over by then"
        yield Reason("deadline", "note", text, event.step, event.run_id, until=deadline)
    for run_id, dispatch in view.schedule.runs.items():
        step, hold = view.step(dispatch.event.step), view.holds.get((run_id, -1))
        if step is not None and step.timeout_s is not None and hold is not None:
            until = stamp(seconds(hold.began) + step.timeout_s)
            text = f"{run_id} is over its timeout_s of {step.timeout_s:g} if it is not over by then"
            yield Reason("deadline", "note", text, step.name, run_id, until=until)


def _commands(view: View, plans: Plans, values: Values) -> list[Command]:
    """What a worker should have. A run that has ended is its router's."""
    ended = {place for place, hold in view.holds.items() if hold.state == "ended"}
    return [command for command in scheduling.outstanding(plans, view.schedule, values)
            if (command.run_id, command.index) not in ended]


# -- what a shell has to find out ------------------------------------------------------------


def pools(view: View, plans: Plans, values: Values) -> list[str]:
    """The pools whose workers have something, or should have."""
    return sorted({command.pool for command in _commands(view, plans, values)} | why_pauses.pools(view))


def in_doubt(view: View, world: World, plans: Plans, values: Values) -> frozenset[str]:
    """The control services that should have done something and have not."""
    late = {service for service in why_control.undecided(view, plans, world.now, values)
            if why_control.is_late(view, service, world.now)}
    if world.now - why_control.since(view, "scheduler", world.now) > PATIENCE_S:
        if any(why_runs.is_on_its_way(view, world, command) for command in _commands(view, plans, values)):
            late.add("scheduler")
        if any(why_limits.is_free(want, world) for want in why_limits.wanted(view, plans, values)):
            late.add("scheduler")
    return frozenset(late)
