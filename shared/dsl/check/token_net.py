"""The workflow as a net of tokens, looked at before it runs. Conditions that cannot be decided go both
ways, so an answer is about what the net allows, not about what the data will do.

The states follow `engine/routing/joins.py` for joins of `all`: tokens of one step merge when it is entered; a token
waits while another token or run can still reach its step; when all wait and nothing runs, the earliest enters.
With other joins tokens do not merge, so where the states would have to be looked at there is no answer.
Where a token came first matters only inside cycles; elsewhere runs end in one order.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Literal

from msgspec import Struct

from shared.dsl.model.plan import Arc, Plan, Step
from shared.dsl.model.reachability import closure, components
from shared.dsl.read.joins_and_compensation import undoing
from shared.dsl.templates.conditions import FAILED, contradict, fires, truth
from shared.errors import Signal

MAX_STATES = 2000   # looked at in one analysis
MAX_MOVES = 6000    # from one state to another
MAX_VISITS = 60_000  # of moves, in search of ways round
MAX_CHOICES = 6     # undecided arcs of one inclusive step: 2 ** 6 ways to continue
Answer = Literal["proved", "possible", "too large"]
State = tuple[tuple[str, ...], tuple[str, ...]]  # steps with tokens, by arrival; steps that run


class Verdict(Struct, frozen=True):
    """`proved`: it holds whatever the data. `possible`: the net allows a case in which it does not,
    at `steps`. `too large`: a limit was reached first."""

    answer: Answer
    steps: tuple[str, ...] = ()


class Net(Struct, frozen=True):
    """`runs`: every step can run. `ends`: every token can come to an end other than by a failure.
    `bounded`: tokens cannot pile up. `waits`: tokens never all wait for each other."""

    runs: Verdict
    ends: Verdict
    bounded: Verdict
    waits: Verdict
    states: int = 0


class NetTooLarge(Signal):
    """The net has more states than are looked at."""


PROVED = Verdict("proved")
TOO_LARGE = Verdict("too large")


def events(step: Step) -> tuple[str, ...]:
    """How a run of the step can end. One without tasks cannot fail."""
    if not step.tasks:
        return ("step.done",)
    return ("loop.done" if step.loop else "step.done", FAILED)


def takers(step: Step, event: str) -> list[tuple[int, bool | None]]:
    """The arcs that can match the event, and whether they surely do. Exclusive: none after a sure one."""
    found: list[tuple[int, bool | None]] = []
    for index, arc in enumerate(step.arcs):
        taken = fires(arc.when, event)
        if taken is not False:
            found.append((index, taken))
        if taken and step.mode == "exclusive":
            break
    return found


def live(step: Step) -> list[Arc]:
    """The arcs that some event can match."""
    taken = {index for event in events(step) for index, _ in takers(step, event)}
    return [step.arcs[index] for index in sorted(taken)]


def admits(step: Step) -> tuple[bool, bool]:
    """Whether the step can be entered, and whether a token can be refused."""
    allowed = denied = False
    for rule in step.admit:
        decided = True if rule.when is None else truth(rule.when)
        if decided is not False:
            allowed, denied = allowed or rule.allow, denied or not rule.allow
        if decided:
            return allowed, denied
    return allowed or not step.admit, bool(step.admit)


def analyse(plan: Plan, limit: int = MAX_STATES) -> Net:
    shape = _Shape(plan)
    runs, ends = shape.runs(), shape.ends()
    cyclic = any(step in reached for step, reached in plan.reach.items())
    if not cyclic or not shape.forks():
        return Net(runs, ends, PROVED, PROVED)  # one token, or an order in which all can proceed
    if shape.apart:
        return Net(runs, ends, TOO_LARGE, TOO_LARGE)
    walk = _Walk(plan, limit)
    otherwise = PROVED
    try:
        walk.run()
    except NetTooLarge:
        otherwise = TOO_LARGE
    return Net(runs, ends, walk.growth(otherwise), walk.waiting or otherwise, len(walk.states))


class _Shape:
    """What the graph alone says."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.arcs = {name: {arc.step for arc in live(step)} if admits(step)[0] else set()
                     for name, step in plan.steps.items()}
        self.reach = closure(self.arcs)
        self.reached = {plan.start, *self.reach.get(plan.start, ())}
        self.apart = any(plan.steps[name].join != "all" for name in self.reached if name in plan.steps)

    def runs(self) -> Verdict:
        """Whether enough tokens for a number can come together, the graph does not say."""
        beside = undoing(self.plan.steps)
        never = tuple(name for name, step in self.plan.steps.items()
                      if name not in beside and (name not in self.reached or not admits(step)[0]))
        return Verdict("possible", never) if never else TOO_LARGE if self.counted(self.reached) else PROVED

    def counted(self, names: Iterable[str]) -> bool:
        return any(isinstance(self.plan.steps[name].join, int) for name in names)

    def ends(self) -> Verdict:
        last = {name for name, step in self.plan.steps.items() if _can_end(step)}
        ending = self._leads_to(last)
        endless = tuple(name for name in self.plan.steps if name in self.reached and name not in ending)
        cycle = tuple(name for name in endless if name in self.reach[name])
        if cycle and self.counted(cycle):
            return TOO_LARGE  # too few tokens end there as well
        return Verdict("possible", cycle) if cycle else PROVED

    def _leads_to(self, last: set[str]) -> set[str]:
        """These steps, and those from which one of them can be reached."""
        back: dict[str, list[str]] = {}
        for name, targets in self.arcs.items():
            for target in targets:
                back.setdefault(target, []).append(name)
        found, open_ = set(last), list(last)
        while open_:
            for before in back.get(open_.pop(), ()):
                if before not in found:
                    found.add(before)
                    open_.append(before)
        return found

    def forks(self) -> bool:
        """Two tokens on one step are one, unless some join keeps them apart."""
        inclusive = [[arc.step for arc in live(step)] for name, step in self.plan.steps.items()
                     if step.mode == "inclusive" and name in self.reached]
        return any(len(targets if self.apart else set(targets)) > 1 for targets in inclusive)


def _can_end(step: Step) -> bool:
    """Whether a token can end here: no arc matches, or it is rejected."""
    if admits(step)[1]:
        return True
    return any(not any(sure for _, sure in takers(step, event)) for event in events(step) if event != FAILED)


class _Walk:
    def __init__(self, plan: Plan, limit: int) -> None:
        self.plan = plan
        self.limit = limit
        self.states: dict[State, list[tuple[State, str]]] = {}  # the next states, and the step entered
        self.added: dict[tuple[State, State, str], None] = {}   # a token came to a step that has one
        self.waiting: Verdict | None = None
        self.moves = 0
        self.ways: dict[tuple[str, str], list[tuple[str, ...]]] = {}

    def run(self) -> None:
        open_: list[State] = [((self.plan.start,), ())]
        self.states[open_[0]] = []
        while open_:
            state = open_.pop()
            for after, entered in self.after(state):
                self.states[state].append((after, entered))
                self.moves += 1
                if self.moves > MAX_MOVES:
                    raise NetTooLarge
                if after not in self.states:
                    if len(self.states) >= self.limit:
                        raise NetTooLarge
                    self.states[after] = []
                    open_.append(after)

    def after(self, state: State) -> Iterator[tuple[State, str]]:
        places, running = state
        place = self.enterable(places, running)
        if place is None and places and not running:
            if self.waiting is None:
                self.waiting = Verdict("possible", places)
            place = places[0]
        if place is not None:
            yield from self.enter(state, place)
            return
        outside = [step for step in running if step not in self.plan.reach[step]]
        for step in outside[:1] or sorted(set(running)):
            left = list(running)
            left.remove(step)
            for after in self.finish(state, places, tuple(left), step):
                yield after, ""

    def enterable(self, places: tuple[str, ...], running: tuple[str, ...]) -> str | None:
        reach = self.plan.reach
        for place in places:
            if not any(place in reach[other] for other in {*running, *places} - {place}) and not (
                    place in running and place in reach[place]):
                return place
        return None

    def enter(self, state: State, place: str) -> Iterator[tuple[State, str]]:
        step = self.plan.steps[place]
        left, running = tuple(each for each in state[0] if each != place), state[1]
        allowed, denied = admits(step)
        if denied:
            yield (left, running), place
        if allowed and step.tasks:
            yield (left, tuple(sorted((*running, place)))), place
        elif allowed:
            for after in self.finish(state, left, running, place):
                yield after, place

    def finish(self, before: State, places: tuple[str, ...], running: tuple[str, ...], name: str) -> Iterator[State]:
        step = self.plan.steps[name]
        for event in events(step):
            for targets in self.choices(step, event):
                if event == FAILED and not targets:
                    continue  # the execution fails
                after = (tuple(dict.fromkeys((*places, *targets))), running)
                self.added |= {(before, after, target): None for target in targets if target in places}
                yield after

    def choices(self, step: Step, event: str) -> list[tuple[str, ...]]:
        key = (step.name, event)
        if key not in self.ways:
            self.ways[key] = choices(step, event)
        return self.ways[key]

    def growth(self, otherwise: Verdict) -> Verdict:
        """A way round on which a step gets tokens and is never entered."""
        rounds: dict[str, dict[State, int]] = {}
        for before, after, target in self.added:
            if target not in rounds:
                if (len(rounds) + 1) * self.moves > MAX_VISITS:
                    return TOO_LARGE
                rounds[target] = circles(self.states, target)
            if rounds[target].get(before) == rounds[target].get(after):
                return Verdict("possible", (target,))
        return otherwise


def circles(states: Mapping[State, list[tuple[State, str]]], without: str) -> dict[State, int]:
    """States with the same number lead to each other without entering a step."""
    groups = components(states, lambda state: (after for after, entered in states.get(state, ()) if entered != without))
    return {state: number for number, group in enumerate(groups) for state in group}


def choices(step: Step, event: str) -> list[tuple[str, ...]]:
    """The sets of steps that can get a token when the step ends so."""
    found = takers(step, event)
    if step.mode == "exclusive":
        ways: list[tuple[str, ...]] = [(step.arcs[index].step,) for index, _ in found]
        return ways if any(sure for _, sure in found) else [*ways, ()]
    open_ = [index for index, sure in found if not sure]
    if len(open_) > MAX_CHOICES:
        raise NetTooLarge
    sure_ = [index for index, sure in found if sure]
    picked = [sorted((*sure_, *some)) for size in range(len(open_) + 1) for some in combinations(open_, size)]
    return [tuple(step.arcs[index].step for index in some) for some in picked if _together(step, some)]


def _together(step: Step, picked: list[int]) -> bool:
    return not any(contradict(step.arcs[one].when, step.arcs[other].when) for one, other in combinations(picked, 2))
