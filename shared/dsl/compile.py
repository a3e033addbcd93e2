"""Source to Plan. Never raises for any input: every mistake is a Diagnostic, and all are reported at once."""

import hashlib
from collections.abc import Collection, Mapping

from msgspec import Struct
from msgspec.structs import replace

from shared.dsl.check.plan import check_plan
from shared.dsl.lower.earlier_editions import as_edition
from shared.dsl.lower.lower import lower
from shared.dsl.model.diagnostics import Diagnostic
from shared.dsl.model.edition import EDITION, plan_name
from shared.dsl.model.plan import Origin, Plan, Step
from shared.dsl.model.reachability import reach
from shared.dsl.model.tool_spec import ToolSpec
from shared.dsl.read.joins_and_compensation import check_compensations
from shared.dsl.read.reader import MAX_WARNINGS, Reader
from shared.dsl.read.root import START, read_header, read_keychain, read_workbook, read_workflow, read_workload
from shared.dsl.read.spec_layers import all_knobs
from shared.dsl.read.step_policy import read_executor
from shared.dsl.read.steps import Around, read_step
from shared.dsl.source.load import load
from shared.dsl.source.nodes import Document


class Compiled(Struct, frozen=True):
    """`plan` is None when any diagnostic is an error. Diagnostics are sorted by place."""

    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...]


def compile_playbook(source: str | bytes, *, kinds: Mapping[str, ToolSpec], file: str = "",
                     strict: bool = False, pools: Collection[str] | None = None, edition: int = EDITION) -> Compiled:
    """`strict` takes the canonical form alone; otherwise the formal dialect and the sugar are lowered to it.
    `pools` are those of the server it is for, when that is known; `edition` is that of the language."""
    document, diagnostics = load(source, file=file)
    if document is None:
        return Compiled(None, tuple(sorted(diagnostics)))
    origins: Mapping[str, Origin] = {}
    if not strict:
        lowered = lower(document, kinds, file, edition)
        document, origins = lowered.document, lowered.labels
        diagnostics += lowered.diagnostics
    data = source if isinstance(source, bytes) else source.encode("utf-8")
    reader = Reader(document, file, diagnostics)
    digest = plan_name(hashlib.sha256(data).hexdigest(), edition)
    plan = _titled(_read(reader, document, kinds, digest, pools, strict=strict), dict(origins))
    if edition != EDITION:
        plan = as_edition(plan, edition)
    if reader.full or reader.warnings > MAX_WARNINGS:
        diagnostics.append(Diagnostic(len(document.lines), 1, "DSL802", "there is more, which is not shown",
                                      "mend these and compile again", file, "error" if reader.errors else "warning"))
    return Compiled(None if reader.errors else plan, tuple(sorted(diagnostics)))


def _titled(plan: Plan, origins: dict[str, Origin]) -> Plan:
    """With the names of what was generated."""
    if not origins:
        return plan
    steps = {name: replace(step, tasks=tuple(
        replace(task, title=origins[task.name].what) if task.name in origins else task for task in step.tasks))
        for name, step in plan.steps.items()}
    return replace(plan, steps=steps, origins=origins)


def _read(reader: Reader, document: Document, kinds: Mapping[str, ToolSpec], digest: str,
          pools: Collection[str] | None, *, strict: bool) -> Plan:
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
                labels=header.labels)
    paths = {source.name: source.path for source in sources if source.unique}
    check_compensations(reader, steps, paths, plan.start)
    check_plan(reader, plan, paths, kinds, pools, strict=strict)
    return plan
