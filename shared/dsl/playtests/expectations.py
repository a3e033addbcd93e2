"""What a case expects: each expectation is checked as far as it can be without running anything."""

import re
from collections.abc import Mapping
from typing import Any, cast

from shared.dsl.model.plan import Plan
from shared.dsl.playtests.model import (
    ELAPSED_KEYS,
    ENDINGS,
    EXPECT_KEYS,
    MAX_COUNT,
    MAX_TIME_S,
    STEP_ENDS,
    STEP_KEYS,
    Elapsed,
    Expect,
    StepExpect,
)
from shared.dsl.playtests.parts import read_time
from shared.dsl.playtests.playbooks import Books, is_step, task_of
from shared.dsl.read.reader import Reader, short
from shared.dsl.read.template_fields import read_expression
from shared.dsl.source.nodes import Path

MAX_REGEX = 500


def read_expect(reader: Reader, case: Mapping[str, Any], path: Path, books: Books) -> Expect:
    if "expect" not in case:
        return Expect()
    at, plan = (*path, "expect"), books.main()
    found = reader.section(case, "expect", path, EXPECT_KEYS)
    status = reader.choice(found["status"], (*at, "status"), ENDINGS) if "status" in found else "completed"
    if "error" in found and "status" not in found:
        status = "failed"
    return Expect(
        status=cast(Any, status), path=_path(reader, found, at, plan), steps=_steps(reader, found, at, plan),
        ctx=reader.mapping(found["ctx"], (*at, "ctx"), "write ctx: {key: value}") if "ctx" in found else {},
        result=(found["result"],) if "result" in found else None, error=_error(reader, found, at),
        calls=_calls(reader, found, at, plan), elapsed=_elapsed(reader, found, at), that=_that(reader, found, at),
    )


def _path(reader: Reader, found: Mapping[str, Any], at: Path, plan: Plan | None) -> tuple[str, ...] | None:
    if "path" not in found:
        return None
    names = reader.listing(found["path"], (*at, "path"), "write path: [start, …, end], the steps as they are entered")
    for index, name in enumerate(names):
        is_step(reader, plan, name, (*at, "path", index))
    return tuple(str(name) for name in names)


def _steps(reader: Reader, found: Mapping[str, Any], at: Path, plan: Plan | None) -> dict[str, StepExpect]:
    if "steps" not in found:
        return {}
    below = (*at, "steps")
    steps = reader.mapping(found["steps"], below, "write steps: {name: {runs: 1, status: done}}")
    return {name: _step(reader, steps, name, below, plan) for name in steps}


def _step(reader: Reader, steps: Mapping[str, Any], name: str, path: Path, plan: Plan | None) -> StepExpect:
    is_step(reader, plan, name, (*path, name), key=True)
    found = reader.section(steps, name, path, STEP_KEYS)
    at = (*path, name)
    counts = {key: reader.whole(found[key], (*at, key), 0, MAX_COUNT)
              for key in ("runs", "iterations", "failed") if key in found}
    status = reader.choice(found["status"], (*at, "status"), STEP_ENDS) if "status" in found else None
    looped = plan is None or name not in plan.steps or plan.steps[name].loop is not None
    for key in ("iterations", "failed"):
        if key in found and not looped:
            reader.key((*at, key), "DSL204", f"step {short(name)} has no loop", f"leave {key} out")
    return StepExpect(status=status, **counts)


def _error(reader: Reader, found: Mapping[str, Any], at: Path) -> dict[str, Any] | None:
    if "error" not in found:
        return None
    below = (*at, "error")
    error = reader.mapping(found["error"], below, 'write error: {kind: http, message: "/no answer/"}')
    for key, value in error.items():
        if (regex := regex_of(value)) is not None:
            _regex(reader, regex, (*below, key))
    return error


def regex_of(value: Any) -> str | None:
    """What is between two slashes is a regular expression."""
    is_regex = isinstance(value, str) and len(value) > 2 and value[0] == value[-1] == "/"
    return value[1:-1] if is_regex else None


def _regex(reader: Reader, regex: str, path: Path) -> None:
    fix = f"a regular expression of at most {MAX_REGEX} characters between two slashes"
    if len(regex) > MAX_REGEX:
        reader.value(path, "DSL204", f"a regular expression of {len(regex)} characters", fix)
        return
    try:
        re.compile(regex)
    except (re.error, RecursionError, OverflowError) as error:
        reader.value(path, "DSL204", f"{short(regex)} is not a regular expression: {error}", fix)


def _calls(reader: Reader, found: Mapping[str, Any], at: Path, plan: Plan | None) -> dict[str, int]:
    """Keys are `step.task`, or a step for all its tasks."""
    if "calls" not in found:
        return {}
    below = (*at, "calls")
    calls = reader.mapping(found["calls"], below, "write calls: {step.task: 2}")
    for name in calls:
        step, dot, task = name.partition(".")
        if is_step(reader, plan, step, (*below, name), key=True) and dot:
            assert plan is not None
            task_of(reader, plan, step, task, (*below, name), key=True)
    return {name: reader.whole(count, (*below, name), 0, MAX_COUNT) for name, count in calls.items()}


def _elapsed(reader: Reader, found: Mapping[str, Any], at: Path) -> Elapsed | None:
    if "elapsed" not in found:
        return None
    if not isinstance(found["elapsed"], dict):
        exact = read_time(reader, found, "elapsed", at)
        return Elapsed(exact, exact)
    below = (*at, "elapsed")
    bounds = reader.section(found, "elapsed", at, ELAPSED_KEYS)
    least = read_time(reader, bounds, "least", below)
    most = read_time(reader, bounds, "most", below) if "most" in bounds else MAX_TIME_S
    if most < least:
        reader.value((*below, "most"), "DSL204", "most is less than least", "write a most that is at least least")
    return Elapsed(least, most)


def _that(reader: Reader, found: Mapping[str, Any], at: Path) -> tuple[str, ...]:
    """Conditions on the result of the case."""
    if "that" not in found:
        return ()
    below, fix = (*at, "that"), 'write that: ["{{ result.rows | length == 3 }}"]'
    listed = reader.listing(found["that"], below, fix)
    return tuple(str(read_expression(reader, each, (*below, index), fix)) for index, each in enumerate(listed))
