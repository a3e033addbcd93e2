"""`kind: Pool`: how many workers a pool has, who runs them, and what they provide."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct

from shared.dsl.documents.header import MAX_DOCUMENT_NAME, read_head
from shared.dsl.read.capabilities import read_capabilities
from shared.dsl.read.pool_names import is_pool_name, name_fix
from shared.dsl.read.reader import Reader, is_name, short
from shared.dsl.source.nodes import Path

Backend = Literal["process", "external", "kubernetes"]
SPEC_KEYS = ("backend", "workers", "slots", "provides", "tools_disabled", "drain_s", "silent_s", "autoscaling")
BACKENDS: tuple[Backend, ...] = ("process", "external", "kubernetes")
OURS = ("workers", "slots", "tools_disabled", "drain_s", "silent_s", "autoscaling")  # of workers that we start
SCALING_KEYS = ("mode", "min", "max", "target", "calm_s")
MODES = ("native", "keda")
MAX_WORKERS = 256
MAX_SLOTS = 4096
MAX_DRAIN_S = 3600
MIN_SILENT_S = 10  # beats come every 1.5 s, and a machine may be busy
MAX_SILENT_S = 3600
DEFAULT_SLOTS = 64
DEFAULT_DRAIN_S = 20.0
DEFAULT_SILENT_S = 30.0
MAX_TARGET = 1_000_000
MAX_CALM_S = 86_400
DEFAULT_CALM_S = 300.0
OWNER = re.compile(r"[a-z0-9]+/[a-z0-9](?:[-a-z0-9.]{0,61}[a-z0-9])?")
_SPEC: Path = ("spec",)
_SCALING: Path = ("spec", "autoscaling")


class Autoscaling(Struct, frozen=True):
    """With `keda` somebody else sets the number of workers, by the demand that we tell."""

    mode: Literal["native", "keda"] = "native"
    least: int = 0
    most: int = 1
    target: int = 1
    calm_s: float = DEFAULT_CALM_S


class Pool(Struct, frozen=True):
    """`workers` None: as many as there were; one in a new pool. With `external` others run them. `owner`: whose the
    document is, as in `helm/noetl`; nobody else's words replace it by accident."""

    name: str
    backend: Backend = "process"
    workers: int | None = None
    slots: int = DEFAULT_SLOTS
    provides: tuple[str, ...] = ()
    tools_disabled: tuple[str, ...] = ()
    drain_s: float = DEFAULT_DRAIN_S
    silent_s: float = DEFAULT_SILENT_S
    labels: dict[str, str] = {}
    owner: str = ""
    autoscaling: Autoscaling | None = None

    @property
    def scales(self) -> Autoscaling | None:
        """How we set the number of its workers by demand."""
        return self.autoscaling if self.autoscaling is not None and self.autoscaling.mode == "native" else None

    @property
    def is_scaled_by_others(self) -> bool:
        """KEDA sets the number, by the demand we tell."""
        return self.autoscaling is not None and self.autoscaling.mode == "keda"

    @property
    def ours(self) -> bool:
        """We start and end its workers."""
        return self.backend != "external" and not self.is_scaled_by_others


def read_pool_document(
    reader: Reader, root: Mapping[str, Any], kinds: Iterable[str] = (), *, stored: bool = False
) -> Pool:
    """`kinds` are the tool kinds there are; none given: any name is accepted. A `stored` one may have a name that no
    new one gets."""
    name, labels = read_head(reader, root, "the pool", ("owner",))
    if not stored and name and is_name(name) and len(name) <= MAX_DOCUMENT_NAME and not is_pool_name(name):
        reader.value(("metadata", "name"), "DSL205", f"a pool cannot be called {short(name)}", name_fix(name))
    spec = reader.section(root, "spec", (), SPEC_KEYS)
    chosen = reader.choice(spec["backend"], (*_SPEC, "backend"), BACKENDS) if "backend" in spec else "process"
    backend = next(each for each in BACKENDS if each == chosen)
    if backend == "external":
        _only_ours(reader, spec)
    return Pool(
        name=name, backend=backend, owner=_owner(reader, root), autoscaling=_autoscaling(reader, spec, backend),
        workers=_whole(reader, spec, "workers", 0, MAX_WORKERS),
        slots=_whole(reader, spec, "slots", 1, MAX_SLOTS) or DEFAULT_SLOTS,
        provides=read_capabilities(reader, spec["provides"], (*_SPEC, "provides")) if "provides" in spec else (),
        tools_disabled=_disabled(reader, spec, tuple(kinds)), drain_s=_drain(reader, spec),
        silent_s=_silent(reader, spec), labels=labels,
    )


def _owner(reader: Reader, root: Mapping[str, Any]) -> str:
    metadata = root.get("metadata")
    if not isinstance(metadata, dict) or "owner" not in metadata:
        return ""
    owner = metadata["owner"]
    if isinstance(owner, str) and OWNER.fullmatch(owner):
        return owner
    reader.value(("metadata", "owner"), "DSL205", f"the owner cannot be {short(owner)}",
                 "write who and which one, as in helm/noetl")
    return ""


def _autoscaling(reader: Reader, spec: Mapping[str, Any], backend: str) -> Autoscaling | None:
    if "autoscaling" not in spec or backend == "external":
        return None
    found = reader.section(spec, "autoscaling", _SPEC, SCALING_KEYS)
    if "workers" in spec:
        reader.key((*_SPEC, "workers"), "DSL204", "workers has no meaning with autoscaling",
                   "leave it out: min and max bound the number of workers")
    if "mode" in found and reader.choice(found["mode"], (*_SCALING, "mode"), MODES) == "keda":
        return _by_keda(reader, found, backend)
    for key in ("max", "target"):
        reader.required(found, key, _SCALING, "autoscaling", f"add {key}: {'10' if key == 'max' else '50'}")
    least = reader.whole(found["min"], (*_SCALING, "min"), 0, MAX_WORKERS) if "min" in found else 0
    most = reader.whole(found["max"], (*_SCALING, "max"), 1, MAX_WORKERS) if "max" in found else max(1, least)
    target = reader.whole(found["target"], (*_SCALING, "target"), 1, MAX_TARGET) if "target" in found else 1
    if least > most:
        reader.value((*_SCALING, "min"), "DSL204", f"min is {least}, over max, which is {most}", "min is at most max")
    return Autoscaling("native", least, most, target, _calm(reader, found))


def _by_keda(reader: Reader, found: Mapping[str, Any], backend: str) -> Autoscaling:
    if backend != "kubernetes":
        reader.value((*_SCALING, "mode"), "DSL204", "KEDA scales Deployments", "write backend: kubernetes")
    for key in found:
        if key in SCALING_KEYS and key != "mode":
            reader.key((*_SCALING, key), "DSL204", f"{key} has no meaning with mode keda",
                       "leave it out and set it in the ScaledObject")
    return Autoscaling("keda")


def _calm(reader: Reader, found: Mapping[str, Any]) -> float:
    calm = reader.seconds(found["calm_s"], (*_SCALING, "calm_s")) if "calm_s" in found else None
    if calm is not None and calm > MAX_CALM_S:
        reader.value((*_SCALING, "calm_s"), "DSL204", f"calm_s is over {MAX_CALM_S}", f"at most {MAX_CALM_S} seconds")
    return calm or DEFAULT_CALM_S


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
