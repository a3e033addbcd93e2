"""`kind: Pool`: how many workers a pool has, who runs them, and what they provide."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct

from shared.dsl.documents.header import read_head
from shared.dsl.read.capabilities import read_capabilities
from shared.dsl.read.reader import Reader, short
from shared.dsl.source.nodes import Path

SPEC_KEYS = ("backend", "workers", "slots", "provides", "tools_disabled", "drain_s", "silent_s")
BACKENDS = ("process", "external")
OURS = ("workers", "slots", "tools_disabled", "drain_s", "silent_s")  # settings of workers that we start
MAX_WORKERS = 256
MAX_SLOTS = 4096
MAX_DRAIN_S = 3600
MIN_SILENT_S = 10  # beats come every 1.5 s, and a machine may be busy
MAX_SILENT_S = 3600
DEFAULT_SLOTS = 64
DEFAULT_DRAIN_S = 20.0
DEFAULT_SILENT_S = 30.0
_SPEC: Path = ("spec",)


class Pool(Struct, frozen=True):
    """`workers` None: as many as there were; one in a new pool. With `external` others run them."""

    name: str
    backend: Literal["process", "external"] = "process"
    workers: int | None = None
    slots: int = DEFAULT_SLOTS
    provides: tuple[str, ...] = ()
    tools_disabled: tuple[str, ...] = ()
    drain_s: float = DEFAULT_DRAIN_S
    silent_s: float = DEFAULT_SILENT_S
    labels: dict[str, str] = {}


def read_pool_document(reader: Reader, root: Mapping[str, Any], kinds: Iterable[str] = ()) -> Pool:
    """`kinds` are the tool kinds there are; none given: any name is accepted."""
    name, labels = read_head(reader, root, "the pool")
    spec = reader.section(root, "spec", (), SPEC_KEYS)
    backend = reader.choice(spec["backend"], (*_SPEC, "backend"), BACKENDS) if "backend" in spec else "process"
    if backend == "external":
        _only_ours(reader, spec)
    return Pool(
        name=name, backend="external" if backend == "external" else "process",
        workers=_whole(reader, spec, "workers", 0, MAX_WORKERS),
        slots=_whole(reader, spec, "slots", 1, MAX_SLOTS) or DEFAULT_SLOTS,
        provides=read_capabilities(reader, spec["provides"], (*_SPEC, "provides")) if "provides" in spec else (),
        tools_disabled=_disabled(reader, spec, tuple(kinds)), drain_s=_drain(reader, spec),
        silent_s=_silent(reader, spec), labels=labels,
    )


def _only_ours(reader: Reader, spec: Mapping[str, Any]) -> None:
    for key in OURS:
        if key in spec:
            reader.key((*_SPEC, key), "DSL204", f"{key} has no meaning with backend external: others run the workers",
                       "leave it out and set it where the workers run, or write backend: process")


def _whole(reader: Reader, spec: Mapping[str, Any], key: str, least: int, most: int) -> int | None:
    return reader.whole(spec[key], (*_SPEC, key), least, most) if key in spec else None


def _disabled(reader: Reader, spec: Mapping[str, Any], kinds: tuple[str, ...]) -> tuple[str, ...]:
    if "tools_disabled" not in spec:
        return ()
    path = (*_SPEC, "tools_disabled")
    found = []
    for index, each in enumerate(reader.listing(spec["tools_disabled"], path, "write a list, as in [shell, python]")):
        if isinstance(each, str) and (not kinds or each in kinds):
            found.append(each)
            continue
        near = reader.nearest(each, kinds)
        fix = f"did you mean {near}?" if near else f"one of: {', '.join(sorted(kinds))}"
        reader.value((*path, index), "DSL405", f"there is no tool kind {short(each)}", fix)
    return tuple(found)


def _drain(reader: Reader, spec: Mapping[str, Any]) -> float:
    if "drain_s" not in spec:
        return DEFAULT_DRAIN_S
    found = reader.seconds(spec["drain_s"], (*_SPEC, "drain_s"))
    if found is not None and found > MAX_DRAIN_S:
        reader.value((*_SPEC, "drain_s"), "DSL204", f"drain_s is over {MAX_DRAIN_S}", f"at most {MAX_DRAIN_S} seconds")
    return found or DEFAULT_DRAIN_S


def _silent(reader: Reader, spec: Mapping[str, Any]) -> float:
    if "silent_s" not in spec:
        return DEFAULT_SILENT_S
    found = reader.seconds(spec["silent_s"], (*_SPEC, "silent_s"))
    if found is not None and not MIN_SILENT_S <= found <= MAX_SILENT_S:
        bounds = f"{MIN_SILENT_S} to {MAX_SILENT_S}"
        reader.value((*_SPEC, "silent_s"), "DSL204", f"silent_s is outside {bounds}", f"{bounds} seconds")
    return found or DEFAULT_SILENT_S


def plain(name: str, workers: int | None = None, *, backend: str = "process", slots: int | None = None,
          provides: Iterable[str] = ()) -> str:
    """The source of a document that says no more than this."""
    given = {"backend": backend, "workers": workers, "slots": slots, "provides": f"[{', '.join(provides)}]"}
    lines = [f"  {key}: {value}" for key, value in given.items() if value is not None and value != "[]"]
    return "\n".join(["apiVersion: noetl.io/v2", "kind: Pool", f"metadata: {{name: {name}}}", "spec:", *lines, ""])
