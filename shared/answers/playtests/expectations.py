"""The result of a rehearsed case, and where it differs from what was expected."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from shared.answers.history.summary import Summary
from shared.answers.rehearsal.rehearse import result_of
from shared.answers.rehearsal.types import Rehearsed
from shared.dsl.playtests.expectations import regex_of
from shared.dsl.playtests.model import Expect, StepExpect
from shared.dsl.templates.evaluate import evaluate, truth
from shared.errors import TemplateError
from shared.events import model as ev

MAX_DIFFERENCES = 20  # reported of one expectation
NOTHING = object()  # there is no such key
CLOSE_S = 0.0005  # lengths of time are compared to the millisecond


class Came(Struct, frozen=True, kw_only=True):
    """How a case ended. `path` are the steps in the order they were entered, `calls` how often each `step.task` was
    called, a call that is repeated after a fault counted once; `elapsed` is virtual."""

    status: str
    reason: str
    path: list[str]
    steps: dict[str, dict[str, Any]]
    ctx: dict[str, Any]
    result: Any
    error: dict[str, Any] | None
    calls: dict[str, int]
    elapsed: float
    workload: dict[str, Any]


class Mismatch(Struct, frozen=True):
    """`what` names the expectation, such as ctx.total."""

    what: str
    expected: Any
    got: Any
    how: Literal["differs", "missing", "extra"] = "differs"


def came(found: Rehearsed) -> Came:
    summary = Summary(found.execution_id)
    path: list[str] = []
    for _, record in found.entries:
        summary.apply(record)
        path += [event.step for event in record.events if isinstance(event, ev.StepScheduled)]
    steps = {name: {"runs": step.runs, "status": step.status, "iterations": step.loop.total if step.loop else 0,
                    "failed": step.loop.failed if step.loop else 0} for name, step in summary.steps.items()}
    keys = {need.key: f"{need.step}.{need.task}" for need in found.calls}
    calls = {name: list(keys.values()).count(name) for name in sorted(set(keys.values()))}
    return Came(
        status=found.status, reason=found.reason, path=path, steps=steps, ctx=found.state.ctx, result=result_of(found),
        error=found.state.error, calls=calls, elapsed=found.seconds, workload=found.state.workload,
    )


def judge(expect: Expect, got: Came) -> list[Mismatch]:
    """Everything that is not as expected."""
    if got.status != expect.status:
        return [Mismatch("status", expect.status, got.status), *_rest(expect, got)]
    return list(_rest(expect, got))


def _rest(expect: Expect, got: Came) -> Iterator[Mismatch]:
    if expect.path is not None and list(expect.path) != got.path:
        yield Mismatch("path", list(expect.path), got.path)
    for name, step in expect.steps.items():
        yield from _step(name, step, got)
    for key, value in expect.ctx.items():
        yield from _first(value, got.ctx.get(key, NOTHING), f"ctx.{key}")
    if expect.result is not None:
        yield from _first(expect.result[0], got.result, "result")
    if expect.error is not None:
        yield from _error(expect.error, got.error)
    for name, count in expect.calls.items():
        made = sum(each for call, each in got.calls.items() if call == name or call.partition(".")[0] == name)
        if made != count:
            yield Mismatch(f"calls.{name}", count, made)
    if expect.elapsed is not None:
        least, most = expect.elapsed.least, expect.elapsed.most
        if not least - CLOSE_S <= got.elapsed <= most + CLOSE_S:
            wanted = least if least == most else {"least": least, "most": most}
            yield Mismatch("elapsed", wanted, round(got.elapsed, 3))
    yield from held(expect, got)


def held(expect: Expect, got: Came) -> Iterator[Mismatch]:
    """The conditions under `that`, which hold in whatever order things happen."""
    names = {"status": got.status, "result": got.result, "ctx": got.ctx, "error": got.error, "steps": got.steps,
             "workload": got.workload, "calls": got.calls, "elapsed": got.elapsed}
    for condition in expect.that:
        try:
            if not truth(condition, names):
                yield Mismatch("that", condition, evaluate(condition, names))
        except TemplateError as error:
            yield Mismatch("that", condition, str(error))


def _first(expected: Any, got: Any, at: str) -> Iterator[Mismatch]:
    for count, mismatch in enumerate(differences(expected, got, at)):
        if count == MAX_DIFFERENCES:
            yield Mismatch(at, "…", "… and more")
            return
        yield mismatch


def _step(name: str, step: StepExpect, got: Came) -> Iterator[Mismatch]:
    seen = got.steps.get(name, {"runs": 0, "status": "not entered", "iterations": 0, "failed": 0})
    for key in ("runs", "status", "iterations", "failed"):
        wanted = getattr(step, key)
        if wanted is not None and seen[key] != wanted:
            yield Mismatch(f"steps.{name}.{key}", wanted, seen[key])


def _error(expected: Mapping[str, Any], got: dict[str, Any] | None) -> Iterator[Mismatch]:
    if got is None:
        yield Mismatch("error", dict(expected), None, "missing")
        return
    for key, value in expected.items():
        at, found = f"error.{key}", got.get(key, NOTHING)
        regex = regex_of(value)
        if regex is None:
            yield from _first(value, found, at)
        elif found is NOTHING:
            yield Mismatch(at, value, None, "missing")
        elif re.search(regex, str(found)) is None:
            yield Mismatch(at, value, found)


def differences(expected: Any, got: Any, at: str) -> Iterator[Mismatch]:
    """The smallest parts of two values that are not the same. True is not 1, but 1 is 1.0."""
    if got is NOTHING:
        yield Mismatch(at, expected, None, "missing")
    elif isinstance(expected, dict) and isinstance(got, dict):
        for key in [*expected, *(key for key in got if key not in expected)]:
            if key not in expected:
                yield Mismatch(f"{at}.{key}", None, got[key], "extra")
            else:
                yield from differences(expected[key], got.get(key, NOTHING), f"{at}.{key}")
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for index, (ours, theirs) in enumerate(zip(expected, got, strict=True)):
            yield from differences(ours, theirs, f"{at}[{index}]")
    elif expected != got or isinstance(expected, bool) != isinstance(got, bool):
        yield Mismatch(at, expected, got)
