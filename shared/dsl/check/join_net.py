"""How many tokens can ever come to a step whose join waits for a number of them. An upper bound, reported only where
no cycle leads to the step: there a token can come again and again."""

from collections import Counter
from collections.abc import Iterator

from shared.dsl.check import token_net
from shared.dsl.model.plan import Plan
from shared.dsl.model.reachability import components

MAX_VISITS = 20_000  # of steps, for all joins of a playbook together


def too_few(plan: Plan) -> Iterator[tuple[str, int]]:
    """Steps that wait for more tokens than can come, and how many can."""
    waiting = [step for step in plan.steps.values() if isinstance(step.join, int)]
    arrivals = Arrivals(plan) if waiting else None
    for step in waiting:
        most = arrivals.most(step.name) if arrivals is not None else None
        if most is not None and 0 < most < int(step.join):
            yield step.name, most


class Arrivals:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        groups = components(plan.steps, lambda name: [arc.step for arc in plan.steps[name].arcs])
        self.order = [name for group in groups for name in group]  # those further on come first
        self.visits = 0
        self.known: dict[str, list[Counter[str]]] = {}

    def most(self, name: str) -> int | None:
        """None: no bound is known."""
        reach = self.plan.reach
        before = {each for each in self.plan.steps if name in reach[each]}
        self.visits += len(before)
        if name in before or self.visits > MAX_VISITS or any(each in reach[each] for each in before):
            return None
        order = [each for each in self.order if each in before]
        return min(self._forward(name, order[::-1]), self._backward(name, order))

    def ways(self, name: str) -> list[Counter[str]]:
        """For each way the step can end, how many tokens can go where."""
        if name not in self.known:
            step = self.plan.steps[name]
            self.known[name] = [Counter(step.arcs[index].step for index, _ in token_net.takers(step, event))
                                for event in token_net.events(step)]
        return self.known[name]

    def _forward(self, name: str, order: list[str]) -> int:
        """Counts what comes along every arc; tokens that enter as one leave as one."""
        come = Counter({self.plan.start: 1})
        for each in order:
            join = self.plan.steps[each].join
            runs = come[each] if join == "each" else min(1, come[each])
            if isinstance(join, int) and come[each] < join:
                runs = 0
            most: Counter[str] = Counter()
            for way in self.ways(each):
                most |= way
            for target, count in most.items():
                come[target] += runs * count
        return come[name]

    def _backward(self, name: str, order: list[str]) -> int:
        """What one token can become on its way; an exclusive router selects one arc."""
        found = {name: 1}
        for each in order:
            counted = [[found.get(target, 0) * count for target, count in way.items()] for way in self.ways(each)]
            if self.plan.steps[each].mode == "exclusive":
                found[each] = max((found.get(target, 0) for way in self.ways(each) for target in way), default=0)
            else:
                found[each] = max((sum(way) for way in counted), default=0)
        return found.get(self.plan.start, 0)
