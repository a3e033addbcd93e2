"""A test document to a PlayTest: every mistake with its place and its fix, in one go. Names of steps and tasks are
held against the playbooks it is about."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from msgspec import Struct

from shared.dsl.documents.compile import TEST
from shared.dsl.model.diagnostics import Diagnostic
from shared.dsl.model.plan import Plan
from shared.dsl.playtests.expectations import read_expect
from shared.dsl.playtests.mocks import read_mocks
from shared.dsl.playtests.model import (
    CANCEL_KEYS,
    CASE_KEYS,
    MAX_CASES,
    MAX_SIGNALS,
    MAX_WITH,
    ORDERS,
    ROOT_KEYS,
    RUNNABLE,
    SIGNAL_KEYS,
    Cancel,
    Case,
    Mock,
    PlayTest,
    Signal,
)
from shared.dsl.playtests.parts import limited, read_time
from shared.dsl.playtests.playbooks import Books, PlanOf
from shared.dsl.read.reader import Reader, short
from shared.dsl.read.root import API_VERSION
from shared.dsl.source.load import load
from shared.dsl.source.nodes import Path
from shared.events.bounds import MAX_PATH

_CASES = "write cases: [{name: …, mocks: […], expect: {…}}]"


class CompiledTest(Struct, frozen=True):
    """`test` is None when any diagnostic is an error. `plans` are those of the playbooks it is about, the one under
    test first. Diagnostics are sorted by place."""

    test: PlayTest | None
    plans: tuple[Plan, ...]
    diagnostics: tuple[Diagnostic, ...]


def compile_test(source: str | bytes, plan_of: PlanOf, *, file: str = "") -> CompiledTest:
    """`plan_of` gives the plan of a file that the test names, or says why there is none."""
    document, diagnostics = load(source, file=file)
    if document is None:
        return CompiledTest(None, (), tuple(sorted(diagnostics)))
    reader = Reader(document, file, diagnostics)
    for key, value in (("apiVersion", API_VERSION), ("kind", TEST)):
        fix = f"write {key}: {value}"
        if reader.required(document.data, key, (), "the test", fix) and document.data[key] != value:
            reader.value((key,), "DSL206", f"{key} is {short(document.data[key])}", fix)
    books = Books(plan_of)
    test = _read(reader, document.data, books)
    return CompiledTest(None if reader.errors else test, books.plans, tuple(sorted(diagnostics)))


def _read(reader: Reader, root: Mapping[str, Any], books: Books) -> PlayTest:
    reader.keys(root, (), ROOT_KEYS, {}, "the test")
    desc = reader.text(root["desc"], ("desc",), "write desc: some text") if "desc" in root else ""
    playbook, others = _playbook(reader, root, books), _others(reader, root, books)
    run = _run(reader, root, ())
    mocks = read_mocks(reader, root, (), books)
    listed: Sequence[Any] = ()
    if reader.required(root, "cases", (), "the test", _CASES):
        listed = limited(reader, reader.listing(root["cases"], ("cases",), _CASES), ("cases",), MAX_CASES)
        if root["cases"] == []:
            reader.value(("cases",), "DSL204", "cases is empty", _CASES)
    cases: list[Case] = []
    for index, item in enumerate(listed):
        case = _case(reader, item, ("cases", index), books, run)
        if any(case.name and case.name == other.name for other in cases):
            reader.value(("cases", index, "name"), "DSL401", f"there is a case {short(case.name)} already",
                         "give the case another name")
        cases.append(case)
    return PlayTest(playbook, others, tuple(cases), mocks, desc)


def _playbook(reader: Reader, root: Mapping[str, Any], books: Books) -> str:
    fix = "write playbook: ./orders.yaml, a path from the folder of the test"
    if not reader.required(root, "playbook", (), "the test", fix):
        return ""
    file = reader.text(root["playbook"], ("playbook",), fix, most=MAX_PATH)
    if file:
        books.add(reader, file, ("playbook",))
    return file


def _others(reader: Reader, root: Mapping[str, Any], books: Books) -> tuple[str, ...]:
    if "with" not in root:
        return ()
    fix = "write with: [./child.yaml]"
    listed = limited(reader, reader.listing(root["with"], ("with",), fix), ("with",), MAX_WITH)
    files = []
    for index, item in enumerate(listed):
        file = reader.text(item, ("with", index), fix, most=MAX_PATH)
        if file:
            books.add(reader, file, ("with", index))
            files.append(file)
    return tuple(files)


def _run(reader: Reader, owner: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    if "run" not in owner:
        return ()
    at = (*path, "run")
    listed = reader.listing(owner["run"], at, f"write run: [{RUNNABLE[0]}]")
    return tuple(reader.choice(kind, (*at, index), RUNNABLE) for index, kind in enumerate(listed))


def _case(reader: Reader, item: Any, path: Path, books: Books, run: tuple[str, ...]) -> Case:
    found = reader.mapping(item, path, "write - name: …, with mocks: […] and expect: {…}")
    if not isinstance(item, dict):
        return Case("")
    reader.keys(found, path, CASE_KEYS, {}, "a case")
    name = ""
    if reader.required(found, "name", path, "the case", "begin it with name: what it shows"):
        name = reader.text(found["name"], (*path, "name"), "write name: what it shows", most=200)
    if "desc" in found:
        reader.text(found["desc"], (*path, "desc"), "write desc: some text")
    payload: dict[str, Any] = {}
    if "payload" in found:
        payload = reader.mapping(found["payload"], (*path, "payload"), "write payload: {key: value}")
    order = reader.choice(found["order"], (*path, "order"), ORDERS) if "order" in found else ORDERS[0]
    mocks: tuple[Mock, ...] = read_mocks(reader, found, path, books)
    return Case(
        name=name, expect=read_expect(reader, found, path, books), payload=payload, mocks=mocks,
        signals=_signals(reader, found, path), cancel=_cancel(reader, found, path),
        run=(*_run(reader, found, path), *run), order=cast(Any, order), now=_now(reader, found, path),
        line=reader.document.node(path).position.line,
    )


def _signals(reader: Reader, case: Mapping[str, Any], path: Path) -> tuple[Signal, ...]:
    if "signals" not in case:
        return ()
    at, fix = (*path, "signals"), "write signals: [{name: approved, payload: {…}, at: 1h}]"
    return tuple(_signal(reader, item, (*at, index), fix) for index, item in
                 enumerate(limited(reader, reader.listing(case["signals"], at, fix), at, MAX_SIGNALS)))


def _signal(reader: Reader, item: Any, path: Path, fix: str) -> Signal:
    found = reader.mapping(item, path, fix)
    reader.keys(found, path, SIGNAL_KEYS, {}, "a signal")
    name = ""
    if isinstance(item, dict) and reader.required(found, "name", path, "the signal", fix):
        name = reader.text(found["name"], (*path, "name"), fix, most=64)
    return Signal(name, found.get("payload"), read_time(reader, found, "at", path))


def _cancel(reader: Reader, case: Mapping[str, Any], path: Path) -> Cancel | None:
    if "cancel" not in case:
        return None
    at = (*path, "cancel")
    found = reader.section(case, "cancel", path, CANCEL_KEYS)
    fix = "write reason: some text"
    reason = reader.text(found["reason"], (*at, "reason"), fix) if "reason" in found else ""
    return Cancel(read_time(reader, found, "at", at), reason)


def _now(reader: Reader, case: Mapping[str, Any], path: Path) -> float | None:
    """When the case begins: a time with its zone, so that it is the same everywhere."""
    if "now" not in case:
        return None
    at, fix = (*path, "now"), "write now: '2026-01-31T06:00:00Z', with Z or an offset"
    text = reader.text(case["now"], at, fix, most=64)
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        found = None
    if text and (found is None or found.tzinfo is None):
        reader.value(at, "DSL204", f"now {short(text)} is not a time with a zone", fix)
        return None
    return found.timestamp() if found is not None else None
