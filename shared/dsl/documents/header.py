"""What schedules and triggers have in common: a name, and the playbook they start."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from shared.dsl.read.reader import Reader, short
from shared.dsl.read.root import read_labels
from shared.dsl.source.nodes import Path
from shared.events.bounds import MAX_PATH, MAX_VERSION

ROOT_KEYS = ("apiVersion", "kind", "metadata", "spec")
METADATA_KEYS = ("name", "description", "labels")
MAX_DOCUMENT_NAME = 64  # a trigger's name is part of its consumer's


class PlaybookRef(Struct, frozen=True):
    path: str
    version: str = ""
    payload: dict[str, Any] = {}


def read_head(
    reader: Reader, root: Mapping[str, Any], what: str, more: tuple[str, ...] = ()
) -> tuple[str, dict[str, str]]:
    """The name and the labels; the header's keys are checked, and those of the root. `more` are keys of the header that
    only this kind has."""
    reader.keys(root, (), ROOT_KEYS, {}, what)
    reader.required(root, "spec", (), what, "add spec: {…}")
    metadata = reader.section(root, "metadata", (), (*METADATA_KEYS, *more))
    if "description" in metadata:
        reader.text(metadata["description"], ("metadata", "description"), "write description: some text")
    labels = read_labels(reader, metadata)
    at: Path = ("metadata",) if isinstance(root.get("metadata"), dict) else ()
    if not reader.required(metadata, "name", at, what, "write metadata: {name: …}"):
        return "", labels
    name = reader.name(metadata["name"], ("metadata", "name"), "the name")
    if len(name) > MAX_DOCUMENT_NAME:
        reader.value(("metadata", "name"), "DSL205", f"the name {short(name)} is too long",
                     f"at most {MAX_DOCUMENT_NAME} characters")
    return name, labels


def read_playbook(reader: Reader, spec: Mapping[str, Any], what: str, *, payload: bool) -> PlaybookRef:
    fix = "write playbook: {path: …}"
    if not reader.required(spec, "playbook", ("spec",), what, fix):
        return PlaybookRef("")
    path = ("spec", "playbook")
    keys = ("path", "version", *(("payload",) if payload else ()))
    found = reader.section(spec, "playbook", ("spec",), keys)
    if isinstance(spec["playbook"], dict):
        reader.required(found, "path", path, "the playbook to start", fix)
    texts = {}
    for key, most in (("path", MAX_PATH), ("version", MAX_VERSION)):
        if key in found:
            texts[key] = reader.text(found[key], (*path, key), f"write {key}: '…'", most=most)
    given: dict[str, Any] = {}
    if "payload" in found:
        given = reader.mapping(found["payload"], (*path, "payload"), "write payload: {key: value}")
    return PlaybookRef(texts.get("path", ""), texts.get("version", ""), given)
