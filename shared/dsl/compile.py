"""Source to Plan. Never raises for any input: every mistake is a Diagnostic, and all are reported at once."""

import hashlib
from collections.abc import Callable, Collection, Mapping
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from shared.dsl.check.plan import check_plan
from shared.dsl.lower.earlier_editions import as_edition
from shared.dsl.lower.lower import Lowered, lower
from shared.dsl.model.diagnostics import Diagnostic
from shared.dsl.model.edition import EDITION, plan_name
from shared.dsl.model.plan import Needs, Plan, Step, Task
from shared.dsl.model.reachability import reach
from shared.dsl.model.tool_spec import ToolSpec
from shared.dsl.read.joins_and_compensation import check_compensations
from shared.dsl.read.reader import MAX_WARNINGS, Reader
from shared.dsl.read.root import START, read_header, read_keychain, read_workbook, read_workflow, read_workload
from shared.dsl.read.spec_layers import all_knobs
from shared.dsl.read.step_policy import read_executor
from shared.dsl.read.steps import Around, read_step
from shared.dsl.read.workload_order import workload_order
from shared.dsl.source.load import load
from shared.dsl.source.nodes import Document, Path
from shared.dsl.templates.needs import names_used, together

KEYCHAIN = "keychain"


class Compiled(Struct, frozen=True):
    """`plan` is None when any diagnostic is an error. Diagnostics are sorted by place."""

    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...]


def compile_playbook(source: str | bytes, *, kinds: Mapping[str, ToolSpec], file: str = "",
                     strict: bool = False, pools: Collection[str] | None = None, edition: int = EDITION,
                     programs: bool = False, credentials: Collection[str] | None = None) -> Compiled:
    """`strict` takes the canonical form alone; otherwise the formal dialect and the sugar are lowered to it.
    `pools` and `credentials` are those of the server it is for, when that is known; `edition` is that of the language.
    `programs`: whether Python can read them is asked too, which is for authors and never for what runs."""
    document, diagnostics = load(source, file=file)
    if document is None:
        return Compiled(None, tuple(sorted(diagnostics)))
    lowered = Lowered(document)
    if not strict:
        lowered = lower(document, kinds, file, edition)
        document = lowered.document
        diagnostics += lowered.diagnostics
    data = source if isinstance(source, bytes) else source.encode("utf-8")
    reader = Reader(document, file, diagnostics, lowered.labels)
    digest = plan_name(hashlib.sha256(data).hexdigest(), edition)
    checks = partial(check_plan, kinds=kinds, pools=pools, strict=strict, programs=programs, credentials=credentials)
    plan = _titled(_read(reader, document, kinds, digest, checks), lowered)
    if edition != EDITION:
        plan = as_edition(plan, edition)
    if edition > 2:
        plan = replace(plan, workload_order=workload_order(plan.workload), steps=_with_keychain(plan))
    if reader.full or reader.warnings > MAX_WARNINGS:
        diagnostics.append(Diagnostic(len(document.lines), 1, "DSL802", "there is more, which is not shown",
                                      "mend these and compile again", file, "error" if reader.errors else "warning"))
    return Compiled(None if reader.errors else plan, tuple(sorted(diagnostics)))


def _with_keychain(plan: Plan) -> dict[str, Step]:
    """Whoever reads the keychain carries what its entries say by templates which credential they mean."""
    needs = names_used([entry.get("credential") for entry in plan.keychain])
    if needs == Needs():
        return plan.steps
    return {name: replace(step, needs=together(step.needs, needs), task_needs=together(step.task_needs, needs))
            if KEYCHAIN in step.task_needs.names else step for name, step in plan.steps.items()}


def _titled(plan: Plan, lowered: Lowered) -> Plan:
    """With the names and the meaning of what was generated."""
    if not (lowered.labels or lowered.cases or lowered.again):
        return plan
    steps = {name: replace(step, tasks=tuple(_titled_task(step, task, lowered) for task in step.tasks),
                           case=name in lowered.cases) for name, step in plan.steps.items()}
    return replace(plan, steps=steps, origins=dict(lowered.labels))


def _titled_task(step: Step, task: Task, lowered: Lowered) -> Task:
    origin, again = lowered.labels.get(task.name), lowered.again.get((step.name, task.name), ())
    if origin is not None:
        task = replace(task, title=origin.what, role=origin.role)
    return replace(task, again=again) if again else task


def _read(reader: Reader, document: Document, kinds: Mapping[str, ToolSpec], digest: str,
          check: Callable[[Reader, Plan, dict[str, Path]], None]) -> Plan:
    root = document.data
    header = read_header(reader, root)
    defaults = read_executor(reader, root, tuple(all_knobs(kinds)), header.path)
    workload, keychain = read_workload(reader, root), read_keychain(reader, root)
    read_workbook(reader, root)
    sources = read_workflow(reader, root, defaults.entry_step)
    around = Around(kinds, {source.name: None for source in sources if source.name}, defaults, header.path)
    steps: dict[str, Step] = {}
    for source in sources:
        step = read_step(reader, source.body, source.path, source.name, around)
        if source.unique:
            steps[source.name] = step
    plan = Plan(name=header.name, path=header.path, version=header.version, digest=digest, workload=workload,
                steps=steps, reach=reach(steps), keychain=keychain, start=defaults.entry_step or START,
                timeout_s=defaults.timeout_s, limit=defaults.limit, priority=defaults.priority,
                labels=header.labels, notify=defaults.notify)
    paths = {source.name: source.path for source in sources if source.unique}
    check_compensations(reader, steps, paths, plan.start)
    check(reader, plan, paths)
    return plan
