"""The root of a playbook (DSL2 §1.1): its header, inputs, credentials and the list of steps."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from shared.dsl.read import rejected_keys
from shared.dsl.read.reader import Reader, kind_of, short
from shared.dsl.read.template_fields import check_templates
from shared.dsl.source.nodes import Path
from shared.events import labels
from shared.events.bounds import MAX_PATH, MAX_VERSION

API_VERSION = "noetl.io/v2"
KEYCHAIN_KEYS = ("name", "kind", "type", "credential", "description")
ROOT_KEYS = ("apiVersion", "kind", "metadata", "keychain", "executor", "workload", "workflow", "workbook")
METADATA_KEYS = ("name", "path", "version", "description", "labels", "tags")
MAX_STEPS = 2000
START = "start"


class Header(Struct, frozen=True):
    name: str
    path: str
    version: str
    labels: dict[str, str] = {}


OTHERS = {
    **{kind: f"apply it with noetlctl {kind.lower()} apply -f FILE" for kind in ("Schedule", "Trigger", "Pool")},
    "Test": "run it with noetlctl test FILE",
}


class StepSource(Struct, frozen=True):
    """`unique` False: the name exists already, and the step is only read for its mistakes."""

    name: str
    body: dict[str, Any]
    path: Path
    unique: bool


def read_header(reader: Reader, root: Mapping[str, Any]) -> Header:
    reader.keys(root, (), ROOT_KEYS, rejected_keys.ROOT, "the playbook")
    for key, value in (("apiVersion", API_VERSION), ("kind", "Playbook")):
        fix = f"write {key}: {value}"
        if reader.required(root, key, (), "the playbook", fix) and root[key] != value:
            if key == "kind":  # it may be a document of its own, not a playbook
                fix = OTHERS.get(str(root[key]), fix)
            reader.value((key,), "DSL206", f"{key} is {short(root[key])}", fix)
    metadata = reader.section(root, "metadata", (), METADATA_KEYS)
    fix = "write metadata: {name: …}"
    if "metadata" not in root:
        reader.required(root, "metadata", (), "the playbook", fix)
    elif isinstance(root["metadata"], dict):
        reader.required(metadata, "name", ("metadata",), "metadata", fix)
    return _header(reader, metadata)


def _header(reader: Reader, metadata: Mapping[str, Any]) -> Header:
    found = {}
    for key, most in (("name", 128), ("path", MAX_PATH), ("description", 4096)):
        if key in metadata:
            found[key] = reader.text(metadata[key], ("metadata", key), f"write {key}: some text", most=most)
    version = metadata.get("version", "1")
    if type(version) not in (str, int, float) or not 0 < len(str(version)) <= MAX_VERSION:
        reader.value(("metadata", "version"), "DSL203", "version must be text of 1 to 64 characters",
                     'write version: "1.0"')
    if "tags" in metadata:
        reader.listing(metadata["tags"], ("metadata", "tags"), "write tags: [one, two]")
    name = found.get("name", "")
    return Header(name, found.get("path", name), str(version), read_labels(reader, metadata))


def read_labels(reader: Reader, metadata: Mapping[str, Any]) -> dict[str, str]:
    """What executions are selected by; a number or a boolean is used as its text."""
    if "labels" not in metadata:
        return {}
    path: Path = ("metadata", "labels")
    given = reader.mapping(metadata["labels"], path, "write labels: {key: value}")
    if len(given) > labels.MAX_LABELS:
        reader.key(path, "DSL801", f"{len(given)} labels, over the limit of {labels.MAX_LABELS}", "keep fewer")
    found = {}
    for key, value in given.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if not labels.is_key(key):
            reader.key((*path, key), "DSL205", f"{short(key)} is not the name of a label", labels.KEY_FIX)
        elif not isinstance(value, str | int | float) or not labels.is_value(text):
            reader.value((*path, key), "DSL203", f"the value of label {key} cannot be used", labels.VALUE_FIX)
        else:
            found[key] = text
    return found


def read_workload(reader: Reader, root: Mapping[str, Any]) -> dict[str, Any]:
    if root.get("workload") is None:
        return {}
    workload = reader.mapping(root["workload"], ("workload",), "write workload: {name: value}")
    check_templates(reader, workload, ("workload",), secrets=False)
    return workload


def read_keychain(reader: Reader, root: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    fix = "write keychain: [{name: …, kind: …}]"
    listed = reader.listing(root.get("keychain") or [], ("keychain",), fix)
    entries = []
    seen: set[str] = set()
    for index, entry in enumerate(listed):
        path: Path = ("keychain", index)
        if not isinstance(entry, dict):
            reader.value(path, "DSL203", f"a keychain entry must be a mapping, not {kind_of(entry)}", fix)
            continue
        if reader.required(entry, "name", path, "the keychain entry", "add name: …"):
            _unique(reader, reader.name(entry["name"], (*path, "name"), "a credential's name"), path, seen)
        if reader.required(entry, "kind", path, "the keychain entry", "add kind: …"):
            reader.text(entry["kind"], (*path, "kind"), "write kind: <kind of credential>")
        if "credential" in entry:
            reader.text(entry["credential"], (*path, "credential"), "write credential: <name of a stored credential>")
        _unused(reader, entry, path)
        check_templates(reader, entry, path)
        entries.append(entry)
    return tuple(entries)


def _unused(reader: Reader, entry: Mapping[str, Any], path: Path) -> None:
    others = [key for key in entry if key not in KEYCHAIN_KEYS]
    if others:
        name = short(entry.get("credential") or entry.get("name"))
        reader.key((*path, others[0]), "DSL903",
                   f"{' and '.join(others[:3])} of a keychain entry change nothing: the keychain alone is asked",
                   f"store the credential (noetlctl credential) under {name}", warning=True)


def _unique(reader: Reader, name: str, path: Path, seen: set[str]) -> None:
    if name in seen:
        reader.value((*path, "name"), "DSL401", f"keychain has {short(name)} already", "use another name")
    seen.add(name)


def read_workbook(reader: Reader, root: Mapping[str, Any]) -> None:
    workbook = root.get("workbook")
    if isinstance(workbook, dict) and "tasks" in workbook and len(workbook) == 1:
        workbook = workbook["tasks"]
    if workbook not in (None, [], {}):
        reader.key(("workbook",), "DSL701", "workbook tasks are not supported",
                   "write the tasks out in the steps that use them, and leave workbook empty")


def read_workflow(reader: Reader, root: Mapping[str, Any], entry: str = "") -> list[StepSource]:
    """The steps by name; no step is looked into. `entry` is the step to begin with, if the executor names one."""
    fix = "write workflow: [{step: start, …}]"
    if not reader.required(root, "workflow", (), "the playbook", fix):
        return []
    listed = reader.listing(root["workflow"], ("workflow",), fix)
    if len(listed) > MAX_STEPS:
        reader.key(("workflow",), "DSL801", f"{len(listed)} steps, over the limit of {MAX_STEPS}",
                   "move some into a playbook of their own")
        listed = listed[:MAX_STEPS]
    seen: dict[str, int] = {}
    found = [_step(reader, item, ("workflow", index), seen) for index, item in enumerate(listed)]
    if isinstance(root["workflow"], list) and (entry or START) not in seen:
        _no_start(reader, entry, list(seen))
    return [source for source in found if source is not None]


def _no_start(reader: Reader, entry: str, steps: list[str]) -> None:
    if entry:
        near = reader.nearest(entry, steps)
        reader.value(("executor", "spec", "entry_step"), "DSL403", f"there is no step {short(entry)}",
                     f"did you mean {near}?" if near else "name a step of the workflow")
        return
    other = f", or write executor: {{spec: {{entry_step: {steps[0]}}}}}" if steps and steps[0] else ""
    reader.key(("workflow",), "DSL402", "the workflow has no step named start", f"name the first step start{other}")


def _step(reader: Reader, item: Any, path: Path, seen: dict[str, int]) -> StepSource | None:
    if not isinstance(item, dict):
        reader.value(path, "DSL203", f"a step must be a mapping, not {kind_of(item)}", "write - step: <name>")
        return None
    if not reader.required(item, "step", path, "this item of workflow", "begin it with step: <name>"):
        return StepSource("", item, path, unique=False)
    name = reader.name(item["step"], (*path, "step"), "a step's name")
    line = reader.document.node(path).position.line
    if name in seen and name:
        reader.value((*path, "step"), "DSL401", f"step {short(name)} is already on line {seen[name]}",
                     "give the step another name")
        return StepSource(name, item, path, unique=False)
    seen[name] = line
    return StepSource(name, item, path, unique=bool(name))
