"""What is measured, as data."""

from typing import Any, Literal

from msgspec import Struct

PAGES = 100


class Workload(Struct, frozen=True):
    """`units` of one execution are steps, iterations or pages. Without `relay` the figure stands for
    itself. `floor` and `goal` are of engine/relay per second; `ceiling` of engine/relay latency."""

    name: str
    title: str
    playbook: str
    executions: int
    unit: Literal["ms", "steps/s", "iterations/s", "pages/s"]
    steps: int = 1
    items: int = 1
    payload: dict[str, Any] = {}
    one_by_one: bool = False
    relay: bool = True
    floor: float = 0.0
    goal: float = 0.0
    ceiling: float = 0.0

    @property
    def units(self) -> int:
        return self.executions * self.steps * self.items


FLOOR, GOAL, CEILING = 0.35, 0.5, 2.5

WORKLOADS = (
    Workload("W1", "one step, one at a time: p50", "noop", 200, "ms", one_by_one=True, ceiling=CEILING),
    Workload("W2", "200 executions of 10 steps", "chain", 200, "steps/s", steps=10, floor=FLOOR, goal=GOAL),
    Workload(
        "W3",
        "a loop of 1,000 in parallel",
        "loop",
        1,
        "iterations/s",
        items=1000,
        payload={"items": list(range(1000))},
        floor=FLOOR,
        goal=GOAL,
    ),
    Workload("W4", "1,000 executions of 1 step", "noop", 1000, "steps/s", floor=FLOOR, goal=GOAL),
    Workload("W2p", "20 executions of 10 python steps", "python", 20, "steps/s", steps=10, relay=False),
    Workload("W5", f"{PAGES} HTTP pages, a row each", "pages", 1, "pages/s", items=PAGES, relay=False),
)
