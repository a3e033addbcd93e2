"""`kind: Trigger`: messages of a NATS subject start executions of a playbook."""

import re
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from shared.dsl.documents.header import PlaybookRef, read_head, read_playbook
from shared.dsl.read.known_names import check_names, read_templates
from shared.dsl.read.reader import Reader, kind_of, short
from shared.dsl.read.template_fields import read_expression
from shared.dsl.source.nodes import Path
from shared.events import subjects

SPEC_KEYS = ("subject", "stream", "playbook", "filter", "mapping", "dedupe", "concurrency")
MAX_CONCURRENT = 1000
MAX_SUBJECT = 256
WHEN_FULL = ("queue", "skip")
NAMES = {"message": frozenset({"subject", "headers", "data"})}
WHOLE: dict[str, Any] = {"message": "{{ message }}"}  # the payload unless there is a mapping
_SUBJECT = re.compile(r"[^\s.*>$]+(\.(\*|[^\s.*>]+))*(\.>)?")
_STREAM = re.compile(r"[A-Za-z0-9_-]+")
_OURS = (subjects.ROOT, subjects.INBOX)
_SPEC: Path = ("spec",)


class Trigger(Struct, frozen=True):
    """`stream` empty: core messages, at most once. `max_running` 0: no limit. Its executions get the
    `labels`."""

    name: str
    subject: str
    playbook: PlaybookRef
    stream: str = ""
    filter: Any = True
    mapping: Any = field(default_factory=lambda: dict(WHOLE))
    dedupe: str = ""
    max_running: int = 0
    when_full: Literal["queue", "skip"] = "queue"
    labels: dict[str, str] = {}


def read_trigger(reader: Reader, root: Mapping[str, Any]) -> Trigger:
    name, labels = read_head(reader, root, "the trigger")
    spec = reader.section(root, "spec", (), SPEC_KEYS)
    if not isinstance(root.get("spec"), dict):
        return Trigger(name, "", PlaybookRef(""))
    playbook = read_playbook(reader, spec, "the trigger", payload=False)
    condition, mapping, dedupe = _filter(reader, spec), _mapping(reader, spec), _dedupe(reader, spec)
    for key in ("mapping", "dedupe"):
        read_templates(reader, spec.get(key), (*_SPEC, key), NAMES)
    most, when_full = _concurrency(reader, spec)
    subject = _subject(reader, spec)
    return Trigger(
        name=name, subject=subject, playbook=playbook, stream=_stream(reader, spec, subject), filter=condition,
        mapping=mapping, dedupe=dedupe, max_running=most, when_full=when_full, labels=labels,
    )


def _subject(reader: Reader, spec: Mapping[str, Any]) -> str:
    fix = "write subject: orders.created, orders.* or orders.>"
    if not reader.required(spec, "subject", _SPEC, "the trigger", fix):
        return ""
    path = (*_SPEC, "subject")
    subject = reader.text(spec["subject"], path, fix, most=MAX_SUBJECT)
    if not subject:
        return ""
    first = subject.split(".")[0]
    if is_of_ends(subject) and _SUBJECT.fullmatch(subject):
        return subject
    if first in ("*", ">") or first.startswith(("$", *_OURS)):
        reader.value(path, "DSL204", f"subject {short(subject)} takes in subjects of the engine or the broker",
                     "begin it with a word of your own")
    elif not _SUBJECT.fullmatch(subject):
        reader.value(path, "DSL204", f"{short(subject)} is not a subject", fix)
    return subject


def is_of_ends(subject: str) -> bool:
    """Ends of executions: the one thing of the engine's own that a trigger may hear."""
    return subject.startswith(f"{subjects.ENDS}.")


def _stream(reader: Reader, spec: Mapping[str, Any], subject: str) -> str:
    if is_of_ends(subject):
        if spec.get("stream", subjects.ENDS_STREAM) != subjects.ENDS_STREAM:
            reader.value((*_SPEC, "stream"), "DSL204", f"ends are in the stream {subjects.ENDS_STREAM}",
                         "leave stream out")
        return subjects.ENDS_STREAM
    if "stream" not in spec:
        return ""
    fix = "the name of a JetStream stream that takes the subject; without stream, messages come at most once"
    stream = reader.text(spec["stream"], (*_SPEC, "stream"), fix, most=128)
    if stream and not _STREAM.fullmatch(stream):
        reader.value((*_SPEC, "stream"), "DSL204", f"{short(stream)} is not a stream's name", fix)
    elif stream.startswith(("NOETL_", "KV_noetl_")):
        reader.value((*_SPEC, "stream"), "DSL204", f"stream {short(stream)} is the engine's own", fix)
    return stream


def _filter(reader: Reader, spec: Mapping[str, Any]) -> Any:
    path, value = (*_SPEC, "filter"), spec.get("filter", True)
    if isinstance(value, bool):
        return value
    check_names(reader, value, path, NAMES)
    return read_expression(reader, value, path, 'write filter: "{{ message.data.total > 10 }}"')


def _mapping(reader: Reader, spec: Mapping[str, Any]) -> Any:
    if "mapping" not in spec:
        return WHOLE
    mapping = spec["mapping"]
    if not isinstance(mapping, dict | str) or (isinstance(mapping, str) and "{{" not in mapping):
        says = f"mapping must be a mapping or one expression, not {kind_of(mapping)}"
        reader.value((*_SPEC, "mapping"), "DSL203", says,
                     'write mapping: {order: "{{ message.data.id }}"}, or mapping: "{{ message.data }}"')
        return WHOLE
    return mapping


def _dedupe(reader: Reader, spec: Mapping[str, Any]) -> str:
    if "dedupe" not in spec:
        return ""
    fix = 'write dedupe: "{{ message.data.id }}"'
    text = reader.text(spec["dedupe"], (*_SPEC, "dedupe"), fix)
    if text and "{{" not in text:
        reader.value((*_SPEC, "dedupe"), "DSL602", "dedupe is the same for every message", fix)
    return text


def _concurrency(reader: Reader, spec: Mapping[str, Any]) -> tuple[int, Any]:
    if "concurrency" not in spec:
        return 0, "queue"
    path = (*_SPEC, "concurrency")
    found = reader.section(spec, "concurrency", _SPEC, ("max", "when_full"))
    most = 0
    if reader.required(found, "max", path, "concurrency", "write concurrency: {max: 5, when_full: queue}"):
        most = reader.whole(found["max"], (*path, "max"), 1, MAX_CONCURRENT)
    full = reader.choice(found["when_full"], (*path, "when_full"), WHEN_FULL) if "when_full" in found else "queue"
    return most, full
