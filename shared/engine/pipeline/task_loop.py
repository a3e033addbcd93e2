"""The loop of a task: its tool is called once per element, in order, by the worker that has the run.

1. The elements are those that `in` gives when the task is reached. Nothing of that is recorded: whoever continues
   with the run evaluates it again over the same iter and ctx (`Each.iter`, `Each.ctx`).
2. One `task.done` per element says which one it was (`element`) and how many there are (`of`), so the run continues
   with the current element after a crash.
3. An element has an `iter` of its own, and what is around the task is its `iter.parent`. `set_iter` of a rule
   is gone with the element.
4. `continue` leads to the next element, and after the last one to the next task. `jump`, `break` and `fail` leave
   the loop. The task's result is the list of the elements' results so far.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shared.dsl.model.plan import Level, Task
from shared.dsl.templates.evaluate import evaluate
from shared.engine.scheduling.nesting import Iter, iteration
from shared.engine.values.stored_values import manifest_item
from shared.errors import TemplateError
from shared.events.failure import LIMIT, LOOP
from shared.events.outcome import Outcome, Result, failed, ok

MAX_TASK_ELEMENTS = 10_000


class Each(Struct, frozen=True):
    """Where a task's loop is: the current element, what the ones before it left, and the iter and ctx in which
    the task was reached, after how many others (`began`). `of` is known once the elements are."""

    began: int
    iter: dict[str, Any]
    ctx: dict[str, Any]
    at: int = 0
    of: int = 0
    results: tuple[Any, ...] = ()


def elements(task: Task, names: Mapping[str, Any]) -> list[Any] | Outcome:
    """What the loop goes over; or, when there is nothing to call the tool for, the outcome of the whole task."""
    assert task.loop is not None
    try:
        found = evaluate(task.loop.items, names)
    except TemplateError as error:
        return failed(error.kind, f"loop.in of task {task.name}: {error}")
    if not isinstance(found, list | tuple):
        return failed(LOOP, f"loop.in of task {task.name} must be a list, not {type(found).__name__}")
    if len(found) > MAX_TASK_ELEMENTS:
        return failed(LIMIT, f"loop.in of task {task.name} has {len(found)} elements, over {MAX_TASK_ELEMENTS}: "
                      "put the loop on the step")
    return list(found) or ok(_value(()), shape="loop")


def element_iter(level: Level, items: list[Any], each: Each, set_iter: Iter) -> Iter:
    """What rules have set for the element stays with it when the call is tried again."""
    return {**iteration(level, items[each.at], each.at, len(items), {}), **set_iter, "parent": each.iter}


def after(each: Each, result: Result) -> Each:
    return replace(each, at=each.at + 1, results=(*each.results, manifest_item(result)))


def listed(each: Each, last: Result) -> Result:
    return Result(_value((*each.results, manifest_item(last))), "loop")


def _value(results: tuple[Any, ...]) -> dict[str, Any]:
    return {"results": list(results), "count": len(results)}
