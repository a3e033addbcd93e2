"""What a task asserts of its call and its result, and the parts of a result that stay in the log (`output_select`).

An assertion that does not hold is an error outcome of kind `assert`, so the task's own rules decide what follows.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from shared.dsl.model.plan import Task
from shared.dsl.read.assertions import last_key
from shared.dsl.templates.result_view import MISSING, view
from shared.events.failure import ASSERT
from shared.events.outcome import Outcome, Result, failed

MAX_SELECTED_BYTES = 16_384  # more is not kept beside a reference; then it is read from the whole


def expected(task: Task, config: Mapping[str, Any]) -> Outcome | None:
    """The error of a call that lacks an argument; None when all are there."""
    args = config.get("args")
    given = args if isinstance(args, Mapping) else {}
    missing = [name for name in task.expects if given.get(name) is None]
    return _failed(task, "is called without", missing) if missing else None


def kept(task: Task, outcome: Outcome) -> Outcome:
    """The outcome, checked against what the task says it returns, with the parts it selects."""
    if outcome.status == "error":
        return outcome
    seen = view(Result(outcome.result, outcome.shape))
    missing = [name for name in task.returns if seen.find(name) is MISSING]
    if missing:
        return replace(_failed(task, "returned no", missing), meta=outcome.meta)
    found = {last_key(path): value for path in task.select if (value := _at(seen, path)) is not MISSING}
    if not found or len(msgspec.json.encode(found)) > MAX_SELECTED_BYTES:
        return outcome
    return replace(outcome, fields=found)


def _failed(task: Task, what: str, missing: list[str]) -> Outcome:
    return failed(ASSERT, f"{task} {what} {', '.join(missing)}", details={"missing": missing})


def _at(seen: Any, path: str) -> Any:
    first, *rest = path.replace("[", ".").replace("]", "").split(".")
    value = seen.find(first)
    for part in rest:
        if isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            return MISSING
    return value
