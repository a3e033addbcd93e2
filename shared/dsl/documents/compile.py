"""The documents beside playbooks: `kind: Schedule`, `kind: Trigger` and `kind: Pool`. Read like a playbook: every
mistake with its place and its fix, in one go."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from shared.dsl.documents.pools import Pool, read_pool_document
from shared.dsl.documents.schedules import Schedule, read_schedule
from shared.dsl.documents.triggers import Trigger, read_trigger
from shared.dsl.model.diagnostics import Diagnostic
from shared.dsl.read.reader import Reader, short
from shared.dsl.read.root import API_VERSION
from shared.dsl.source.load import load

KINDS: dict[str, Any] = {"Schedule": read_schedule, "Trigger": read_trigger}
TEST = "Test"  # of a playbook, which is read with it (`playtests/read.py`)
POOL = "Pool"
T = TypeVar("T")


class Compiled(Struct, frozen=True):
    """`document` is None when any diagnostic is an error. Diagnostics are sorted by place."""

    document: Schedule | Trigger | None
    diagnostics: tuple[Diagnostic, ...]


class CompiledPool(Struct, frozen=True):
    document: Pool | None
    diagnostics: tuple[Diagnostic, ...]


def kind_in(source: str | bytes) -> str:
    """Which kind of document the source says it is; empty for anything else."""
    known = (*KINDS, TEST, POOL)
    text = source.decode("utf-8", "replace") if isinstance(source, bytes) else source
    document = load(source)[0] if any(kind in text for kind in known) else None  # most playbooks name none
    kind = document.data.get("kind") if document is not None else None
    return kind if isinstance(kind, str) and kind in known else ""


def compile_document(source: str | bytes, *, kind: str, file: str = "") -> Compiled:
    """`kind` is the one of KINDS that is wanted."""
    return Compiled(*_read(source, kind, file, KINDS[kind]))


def compile_pool(
    source: str | bytes, *, kinds: Iterable[str] = (), file: str = "", stored: bool = False
) -> CompiledPool:
    """`kinds` are the tool kinds there are, for `tools_disabled`. `stored`: it was accepted once, perhaps under a name
    that no new pool gets."""
    return CompiledPool(
        *_read(source, POOL, file, lambda reader, root: read_pool_document(reader, root, kinds, stored=stored)))


def _read(
    source: str | bytes, kind: str, file: str, read: Callable[[Reader, Mapping[str, Any]], T]
) -> tuple[T | None, tuple[Diagnostic, ...]]:
    document, diagnostics = load(source, file=file)
    if document is None:
        return None, tuple(sorted(diagnostics))
    reader = Reader(document, file, diagnostics)
    for key, value in (("apiVersion", API_VERSION), ("kind", kind)):
        fix = f"write {key}: {value}"
        if reader.required(document.data, key, (), f"the {kind.lower()}", fix) and document.data[key] != value:
            reader.value((key,), "DSL206", f"{key} is {short(document.data[key])}", fix)
    found = read(reader, document.data)
    return None if reader.errors else found, tuple(sorted(diagnostics))
