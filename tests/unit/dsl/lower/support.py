"""Runs a lowered playbook on the pure engine and notes what its tools were called with."""

from collections.abc import Callable
from typing import Any

from shared.dsl.model.plan import Plan, Step, Task
from shared.dsl.templates.evaluate import evaluate
from shared.events.outcome import Outcome, ok
from tests.unit.engine.support import Driver, plan_of

Answer = Callable[[dict[str, Any]], Outcome]


class Ran:
    """A finished execution. `calls` are (task, rendered keys) of all but generated noops."""

    def __init__(self, plan: Plan, answers: dict[str, Answer], payload: dict[str, Any] | None = None) -> None:
        self.plan = plan
        self.calls: list[tuple[str, dict[str, Any]]] = []
        tasks = {(step.name, task.name): task for step in plan.steps.values() for task in step.tasks}

        def work(step: str, name: str, names: dict[str, Any]) -> Outcome:
            task = tasks[step, name]
            code = task.config.get("code")
            keys = evaluate({key: value for key, value in task.config.items() if key != "code"}, names)
            if name not in plan.origins or task.kind != "noop" or ("sink" in name and not name.endswith("_if")):
                self.calls.append((name, keys if code is None else {**keys, "code": code}))
            return answers[name](keys) if name in answers else ok(keys.get("args"))

        self.driver = Driver(plan, work, payload).run()

    @property
    def steps(self) -> list[str]:
        return self.driver.steps()

    @property
    def status(self) -> str:
        return self.driver.state.status

    @property
    def ctx(self) -> dict[str, Any]:
        return self.driver.state.ctx

    @property
    def error(self) -> dict[str, Any]:
        return self.driver.state.error or {}

    def result(self, step: str) -> Any:
        return self.driver.state.results[step].value

    def args(self, task: str) -> list[Any]:
        return [keys.get("args") for name, keys in self.calls if name == task]


def run(workflow: str, answers: dict[str, Answer] | None = None, *, workload: str = "{}", **payload: Any) -> Ran:
    return Ran(plan_of(workflow, workload), answers or {}, payload)


def step_of(workflow: str, name: str = "start") -> Step:
    return plan_of(workflow).steps[name]


def task_of(workflow: str, task: str, step: str = "start") -> Task:
    return next(each for each in step_of(workflow, step).tasks if each.name == task)


def answer(value: Any) -> Answer:
    return lambda _keys: ok(value)


def page(body: Any, status: int = 200) -> Outcome:
    return ok({"status_code": status, "headers": {}, "data": body}, shape="http", http={"status": status})
