"""A step: admission, loop, pipeline and router, put together with its effective settings."""

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from shared.dsl.model.plan import Loop, Step, Task
from shared.dsl.model.tool_spec import ToolSpec
from shared.dsl.read import rejected_keys
from shared.dsl.read.arcs import read_next
from shared.dsl.read.capabilities import read_capabilities
from shared.dsl.read.loops import check_local, read_loop
from shared.dsl.read.reader import Reader, Told, short
from shared.dsl.read.shapes import tasks
from shared.dsl.read.spec_layers import all_knobs, effective_spec, read_knobs
from shared.dsl.read.step_policy import Defaults, StepPolicy, read_pool, read_step_policy
from shared.dsl.read.tasks import read_task
from shared.dsl.source.nodes import Path
from shared.dsl.templates.needs import names_used

PLAYBOOK = "playbook"
MAX_TASKS = 200
STEP_KEYS = ("step", "desc", "spec", "loop", "tool", "next")


class Around(Struct, frozen=True):
    """What a step is read against."""

    kinds: Mapping[str, ToolSpec]
    steps: Mapping[str, Any]
    defaults: Defaults
    playbook: str = ""


def read_step(reader: Reader, body: dict[str, Any], path: Path, name: str, around: Around) -> Step:
    reader.keys(body, path, STEP_KEYS, {**_tools_keys(body, around.kinds), **rejected_keys.STEP}, f"step {short(name)}",
                rejected_keys.FORMAL)
    desc = reader.text(body["desc"], (*path, "desc"), "write desc: some text") if "desc" in body else ""
    knobs = tuple(all_knobs(around.kinds))
    pool, requires, policy, step_knobs = _spec(reader, body, path, name, knobs, around)
    loop: Loop | None = None
    loop_knobs: dict[str, Any] = {}
    if "loop" in body:
        loop, loop_knobs = read_loop(reader, body["loop"], (*path, "loop"), knobs, around.kinds)
    outer = (around.defaults.knobs, step_knobs, loop_knobs)
    loop = _with_spec(loop, around.kinds, outer)
    pipeline = _pipeline(reader, body, path, name, around.kinds, outer)
    waiting = [task.kind for task in pipeline if task.kind and around.kinds[task.kind].waits]
    check_local(reader, loop, waiting, path, limited=policy.limit is not None)
    arcs, mode = (read_next(reader, body["next"], (*path, "next"), around.steps)
                  if "next" in body else ((), "exclusive"))
    _complete(reader, body, path, name)
    rendered = _rendered(pipeline, around.kinds)
    starts = any(task.kind == PLAYBOOK for task in pipeline)
    needs = names_used([_of_loop(loop), rendered, policy.limit.key if policy.limit else None])
    return Step(
        name=name, tasks=pipeline, arcs=arcs, mode=cast(Any, mode), admit=policy.admit, loop=loop, pool=pool,
        timeout_s=policy.timeout_s or around.defaults.step_timeout_s, timed_by_executor=not policy.timeout_s,
        deadline_s=policy.deadline_s,
        max_leases=policy.max_leases, failure=cast(Any, policy.failure), tolerate=policy.tolerate,
        max_payload_bytes=policy.max_payload_bytes or around.defaults.max_payload_bytes,
        needs=replace(needs, caller=starts), task_needs=replace(names_used(rendered), caller=starts),
        line=reader.document.node(path).position.line, desc=desc,
        join=policy.join, compensate=policy.compensate, limit=policy.limit, requires=requires,
    )


def _with_spec(loop: Loop | None, kinds: Mapping[str, ToolSpec],
               outer: tuple[Mapping[str, Any], ...]) -> Loop | None:
    """The claim of a cursor runs with the knobs around it, as a task does."""
    if loop is None or loop.cursor is None:
        return loop
    claim = loop.cursor.claim
    spec = effective_spec(kinds.get(claim.kind), outer)
    return replace(loop, cursor=replace(loop.cursor, claim=replace(claim, spec=spec)))


def _of_loop(loop: Loop | None) -> list[Any]:
    """What the scheduler evaluates for it, and whoever claims its rows."""
    if loop is None:
        return []
    claim = [loop.cursor.claim.config, loop.cursor.claim.spec] if loop.cursor is not None else []
    return [*(level.items for level in loop.levels), loop.max_in_flight, loop.stop_when, *claim]


def _tools_keys(body: Mapping[str, Any], kinds: Mapping[str, ToolSpec]) -> dict[str, Told]:
    """A key of the step's own tool on the step: most likely it is indented too little. Of another tool's key nothing is
    guessed: many kinds have an `output` or a `format`."""
    tool = body.get("tool")
    tasks_ = [each for each in (tool if isinstance(tool, list) else [tool]) if isinstance(each, dict)]
    own = {str(each.get("kind")): kinds[str(each.get("kind"))] for each in tasks_ if str(each.get("kind")) in kinds}
    return {key: Told("DSL307", f"{key} is a key of a task, not of a step",
                      f"move it under tool: {{kind: {kind}, {key}: …}}")
            for kind, spec in own.items() for key in body if key in spec.keys}


def _spec(reader: Reader, body: dict[str, Any], path: Path, name: str, knobs: tuple[str, ...],
          around: Around) -> tuple[str, tuple[str, ...], StepPolicy, dict[str, Any]]:
    at = (*path, "spec")
    moved = {"mode": rejected_keys.moved("mode", "next: {spec: {mode: …}} or loop: {spec: {mode: …}}"),
             "admit": rejected_keys.moved("admit", "policy: {admit: …} in the step's spec"),
             **{key: value for key, value in rejected_keys.STEP_POLICY.items() if key in rejected_keys.CONTROL}}
    spec = reader.section(body, "spec", path, ("pool", "requires", "policy", *knobs), moved)
    pool = read_pool(reader, spec["pool"], (*at, "pool")) if "pool" in spec else around.defaults.pool
    requires = read_capabilities(reader, spec["requires"], (*at, "requires")) if "requires" in spec else ()
    if "pool" in spec and "requires" in spec:
        reader.key((*at, "requires"), "DSL204", "pool and requires are both given: one names the pool, one chooses it",
                   "leave one of them out")
    policy = read_step_policy(reader, spec, at, around.steps, f"{around.playbook}/{name}", looped="loop" in body)
    if policy.limit is not None and "tool" not in body:
        reader.key((*at, "policy", "limits"), "DSL903", "a step without a tool has no runs to limit",
                   "remove max and rate", warning=True)
    return pool, requires, policy, read_knobs(reader, spec, at, knobs)


def _pipeline(reader: Reader, body: dict[str, Any], path: Path, name: str, kinds: Mapping[str, ToolSpec],
              outer: tuple[Mapping[str, Any], ...]) -> tuple[Task, ...]:
    if "tool" not in body:
        return ()
    at = (*path, "tool")
    sources = tasks(reader, body["tool"], at, name)
    if len(sources) > MAX_TASKS:
        reader.key(at, "DSL801", f"{len(sources)} tasks, over the limit of {MAX_TASKS}", "split the step")
        sources = sources[:MAX_TASKS]
    seen: set[str] = set()
    for source in sources:
        if source.name in seen and source.name:
            reader.value(source.name_path, "DSL401", f"task {short(source.name)} is already in this step",
                         "give the task another name")
        seen.add(source.name)
    labels = frozenset(seen)
    return tuple(read_task(reader, source, kinds, outer, labels) for source in sources)


def _complete(reader: Reader, body: dict[str, Any], path: Path, name: str) -> None:
    if "tool" not in body and "loop" in body:
        reader.key((*path, "loop"), "DSL404", "loop has nothing to run", "add tool: to the step")
    elif "tool" not in body and "next" not in body and name != "end":
        replaced = ("pipe", "case", "eval")  # reported already, with what to write instead
        if not any(key in body for key in replaced):
            reader.value(path, "DSL407", f"step {short(name)} has neither tool nor next",
                         "add tool: or next:, or name the step end")


def _rendered(pipeline: tuple[Task, ...], kinds: Mapping[str, ToolSpec]) -> list[Any]:
    """All that a worker renders. Admission and arcs are left out: the router evaluates them with the
    whole state."""
    rendered: list[Any] = []
    for task in pipeline:
        keys = kinds[task.kind].keys if task.kind in kinds else {}
        rendered.append({key: value for key, value in task.config.items()
                         if key not in keys or keys[key].template})
        rendered += [task.spec, task.loop.items if task.loop else None]
        for rule in task.rules or ():
            then = rule.then
            rendered.append([rule.when, then.delay, then.set_iter, then.set_ctx, then.result, then.error])
    return rendered
