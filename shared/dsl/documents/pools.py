"""`kind: Pool`: how many workers a pool has, who runs them, and what they provide."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct

from shared.dsl.parts import read_head
from shared.dsl.reader import Reader, short
from shared.dsl.source import Path

SPEC_KEYS = ("backend", "workers", "slots", "provides", "tools_disabled", "drain_s")
BACKENDS = ("process", "external")
OURS = ("workers", "slots", "tools_disabled", "drain_s")  # settings of workers that we start
MAX_WORKERS = 256
MAX_SLOTS = 4096
MAX_CAPABILITIES = 32
MAX_CAPABILITY = 64
MAX_DRAIN_S = 3600
DEFAULT_SLOTS = 64
DEFAULT_DRAIN_S = 20.0
_CAPABILITY = re.compile(r"[A-Za-z0-9_-]+\Z")
_CAPABILITY_FIX = f"letters, digits, _ and -, at most {MAX_CAPABILITY} characters, as in [gpu, eu]"
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
    labels: dict[str, str] = {}


def read_pool_document(reader: Reader, root: Mapping[str, Any], kinds: Iterable[str] = ()) -> Pool:
    """`kinds` are the tool kinds there are; none given: any name is taken."""
    name, labels = read_head(reader, root, "the pool")
    spec = reader.section(root, "spec", (), SPEC_KEYS)
    backend = reader.choice(spec["backend"], (*_SPEC, "backend"), BACKENDS) if "backend" in spec else "process"
    if backend == "external":
        _only_ours(reader, spec)
    return Pool(
        name,
        "external" if backend == "external" else "process",
        _whole(reader, spec, "workers", 0, MAX_WORKERS),
        _whole(reader, spec, "slots", 1, MAX_SLOTS) or DEFAULT_SLOTS,
        read_capabilities(reader, spec["provides"], (*_SPEC, "provides")) if "provides" in spec else (),
        _disabled(reader, spec, tuple(kinds)),
        _drain(reader, spec),
        labels,
    )


def read_capabilities(reader: Reader, value: Any, path: Path) -> tuple[str, ...]:
    """Names, each once; sorted, so that their order has no meaning."""
    found = []
    for index, each in enumerate(reader.listing(value, path, "write a list, as in [gpu, eu]")):
        if not isinstance(each, str) or len(each) > MAX_CAPABILITY or not _CAPABILITY.match(each):
            reader.value((*path, index), "DSL205", f"a capability cannot be called {short(each)}", _CAPABILITY_FIX)
        else:
            found.append(each)
    if len(found) > MAX_CAPABILITIES:
        reader.value(path, "DSL801", f"{len(found)} capabilities, over the limit of {MAX_CAPABILITIES}", "name fewer")
    return tuple(sorted(set(found)))


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


def plain(name: str, workers: int | None = None, *, backend: str = "process", slots: int | None = None,
          provides: Iterable[str] = ()) -> str:
    """The source of a document that says no more than this."""
    given = {"backend": backend, "workers": workers, "slots": slots, "provides": f"[{', '.join(provides)}]"}
    lines = [f"  {key}: {value}" for key, value in given.items() if value is not None and value != "[]"]
    return "\n".join(["apiVersion: noetl.io/v2", "kind: Pool", f"metadata: {{name: {name}}}", "spec:", *lines, ""])
