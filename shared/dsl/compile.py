"""Source to Plan. Never raises for any input: every mistake is a Diagnostic, and all are told at once."""

import hashlib
from collections.abc import Mapping

from msgspec import Struct

from shared.dsl.diagnostics import Diagnostic
from shared.dsl.graph import reach
from shared.dsl.kinds import ToolSpec
from shared.dsl.load import load
from shared.dsl.overlay import all_knobs
from shared.dsl.plan import Plan, Step
from shared.dsl.policies import read_executor
from shared.dsl.reader import MAX_WARNINGS, Reader, short
from shared.dsl.root import (
    START,
    StepSource,
    read_header,
    read_keychain,
    read_workbook,
    read_workflow,
    read_workload,
)
from shared.dsl.source import Document
from shared.dsl.steps import Around, read_step


class Compiled(Struct, frozen=True):
    """`plan` is None when any diagnostic is an error. Diagnostics are sorted by place."""

    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...]


def compile_playbook(source: str | bytes, *, kinds: Mapping[str, ToolSpec], file: str = "") -> Compiled:
    document, diagnostics = load(source, file=file)
    if document is None:
        return Compiled(None, tuple(sorted(diagnostics)))
    data = source if isinstance(source, bytes) else source.encode("utf-8")
    reader = Reader(document, file, diagnostics)
    plan = _read(reader, document, kinds, hashlib.sha256(data).hexdigest())
    if reader.full or reader.warnings > MAX_WARNINGS:
        diagnostics.append(Diagnostic(len(document.lines), 1, "DSL802", "there is more, which is not shown",
                                      "mend these and compile again", file, "error" if reader.errors else "warning"))
    return Compiled(None if reader.errors else plan, tuple(sorted(diagnostics)))


def _read(reader: Reader, document: Document, kinds: Mapping[str, ToolSpec], digest: str) -> Plan:
    root = document.data
    header = read_header(reader, root)
    defaults = read_executor(reader, root, tuple(all_knobs(kinds)))
    workload, keychain = read_workload(reader, root), read_keychain(reader, root)
    read_workbook(reader, root)
    sources = read_workflow(reader, root)
    around = Around(kinds, {source.name: None for source in sources if source.name}, defaults)
    steps: dict[str, Step] = {}
    for source in sources:
        step = read_step(reader, source.body, source.path, source.name, around)
        if source.unique:
            steps[source.name] = step
    reached = reach(steps)
    _warn_unreachable(reader, sources, reached)
    return Plan(name=header.name, path=header.path, version=header.version, digest=digest, workload=workload,
                steps=steps, reach=reached, keychain=keychain, timeout_s=defaults.timeout_s)


def _warn_unreachable(reader: Reader, sources: list[StepSource],
                      reached: Mapping[str, frozenset[str]]) -> None:
    if START not in reached or reader.errors:
        return  # a mistyped arc would make every step after it look unreachable
    for source in sources:
        if source.name != START and source.name not in reached[START]:
            reader.value((*source.path, "step"), "DSL902", f"no arcs lead from start to {short(source.name)}",
                         "add an arc to it, or remove it", warning=True)
