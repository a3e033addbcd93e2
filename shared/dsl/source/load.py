"""Source bytes to a Document: safe YAML, every key and value with its place, every limit explicit.

Events are composed here rather than by PyYAML, so that depth, size and aliases are checked while
reading and never after."""

import re
from typing import Any

import yaml

from shared.dsl.model.diagnostics import Diagnostic
from shared.dsl.source import hints, scalars
from shared.dsl.source import nodes as source
from shared.dsl.source.nodes import Document, Entry, Node, Position
from shared.dsl.templates.limits import tokens
from shared.errors import Signal

_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # an escape can make what the source may not hold
_UNQUOTED = "{{ none }}"  # stands for a template that lacks its quotes, so that one mistake is reported once


class _Stop(Signal):
    """Reading cannot continue; the diagnostic is recorded."""


def load(text: str | bytes, *, file: str = "") -> tuple[Document | None, list[Diagnostic]]:
    """The document, or None when it cannot be read at all; all mistakes of the YAML itself."""
    composer = _Composer(file)
    try:
        return composer.document(text), composer.diagnostics
    except _Stop:
        return None, composer.diagnostics


class _Composer:
    def __init__(self, file: str) -> None:
        self.file = file
        self.diagnostics: list[Diagnostic] = []
        self.anchors: dict[str, Node | None] = {}
        self.aliases = 0
        self.nodes = 0
        self.chars = 0
        self.templates = 0
        self.code = 0
        self.lines: list[str] = []
        self.parser: Any = None

    # -- reporting

    def report(self, code: str, position: Position, message: str, fix: str) -> None:
        self.diagnostics.append(Diagnostic(position.line, position.column, code, message, fix, self.file))
        if len(self.diagnostics) >= source.MAX_SOURCE_ERRORS:
            raise self.stop("DSL802", position, f"{source.MAX_SOURCE_ERRORS} mistakes, and reading stops here",
                            "mend these and compile again")

    def stop(self, code: str, position: Position, message: str, fix: str) -> _Stop:
        self.diagnostics.append(Diagnostic(position.line, position.column, code, message, fix, self.file))
        return _Stop()

    def limit(self, position: Position, what: str, most: int) -> _Stop:
        return self.stop("DSL109", position, f"{what}, over the limit of {most}", "split the playbook")

    # -- the document

    def document(self, given: str | bytes) -> Document:
        text = self.decode(given)
        self.lines = text.splitlines()
        self.parser = _PARSER(text)
        root: Node | None = None
        while (event := self.next()) is not None:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    raise self.stop("DSL103", _position(event), "a second document begins here",
                                    "keep one playbook per file")
                root = self.node(self.next(), 1)
        if root is None or not isinstance(root.value, dict):
            what = "the source is empty" if root is None or root.value is None else "this is not a mapping"
            raise self.stop("DSL106", root.position if root else Position(1, 1), what,
                            "begin with apiVersion: noetl.io/v2, kind: Playbook, metadata, workflow")
        return Document(root, self.lines, root.plain())

    def decode(self, given: str | bytes) -> str:
        size = len(given) if isinstance(given, bytes) else len(given.encode("utf-8", "replace"))
        if size > source.MAX_SOURCE_BYTES:
            raise self.limit(Position(1, 1), f"the source has {size} bytes", source.MAX_SOURCE_BYTES)
        try:
            text = given.decode("utf-8") if isinstance(given, bytes) else given
        except UnicodeDecodeError as error:
            before = error.object[:error.start].decode("utf-8")
            raise self.stop("DSL101", _after(before), "the source is not UTF-8",
                            "save the file as UTF-8") from None
        text = text.removeprefix("\ufeff")
        bad = _UNPRINTABLE.search(text)
        if bad:
            raise self.stop("DSL101", _after(text[:bad.start()]),
                            f"character U+{ord(bad[0]):04X} is not allowed", "remove it")
        return text

    def next(self) -> Any:
        """The next event of the parser."""
        try:
            return self.parser.get_event()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            position = Position(mark.line + 1, mark.column + 1) if mark else Position(1, 1)
            problem, began = error.problem or "not YAML", error.context_mark.line + 1 if error.context_mark else 0
            raise self.stop("DSL102", position, problem, hints.hint(self.lines, position, problem, began)) from None

    # -- nodes

    def node(self, event: Any, depth: int) -> Node:
        kind = type(event)
        mark = event.start_mark
        position = Position(mark.line + 1, mark.column + 1)
        if depth > source.MAX_DEPTH:
            raise self.limit(position, f"nested {depth} deep", source.MAX_DEPTH)
        if kind is yaml.AliasEvent:
            return self.alias(event, position, depth)
        if event.anchor:
            self.anchors[event.anchor] = None
        if kind is yaml.ScalarEvent:
            node = self.scalar(event, position)
        elif kind is yaml.SequenceStartEvent:
            node = self.sequence(event, position, depth)
        else:
            node = self.mapping(event, position, depth)
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def spend(self, nodes: int, chars: int, position: Position) -> None:
        """Counts what the document expands to; an alias counts for all that it stands for."""
        self.nodes += nodes
        self.chars += chars
        if self.nodes > source.MAX_NODES:
            raise self.limit(position, f"{self.nodes} keys and values with aliases expanded", source.MAX_NODES)
        if self.chars > source.MAX_TEXT_CHARS:
            raise self.limit(position, f"{self.chars} characters with aliases expanded", source.MAX_TEXT_CHARS)

    def reuse(self, node: Node, position: Position, depth: int) -> None:
        self.spend(node.nodes, node.chars, position)
        if depth + node.height - 1 > source.MAX_DEPTH:
            raise self.limit(position, "nested too deep with aliases expanded", source.MAX_DEPTH)

    def alias(self, event: Any, position: Position, depth: int) -> Node:
        self.aliases += 1
        if self.aliases > source.MAX_ALIASES:
            raise self.limit(position, f"{self.aliases} aliases", source.MAX_ALIASES)
        target = self.anchors.get(event.anchor)
        if target is None:
            why = "refers to itself" if event.anchor in self.anchors else "has no anchor"
            raise self.stop("DSL107", position, f"alias *{event.anchor[:60]} {why}",
                            "write the value out here")
        self.reuse(target, position, depth)
        return target

    def scalar(self, event: Any, position: Position) -> Node:
        text: str = event.value
        if len(text) > source.MAX_SCALAR_CHARS:
            raise self.limit(position, f"a text of {len(text)} characters", source.MAX_SCALAR_CHARS)
        self.spend(1, len(text), position)
        if event.style == '"' and (bad := _UNSTORABLE.search(text)):  # only escapes can make one
            self.report("DSL101", position, f"character U+{ord(bad[0]):04X} cannot be stored", "remove it")
            text = ""
        if "{{" in text or "{%" in text:
            self.template(text, position)
        plain = event.implicit[0] and event.tag is None and text[:1].isalpha() and text not in scalars.WORDS
        value = text if plain else self.value(event, text, position)
        return Node(position, value, event.style or "", 1, 1, len(text))

    def template(self, text: str, position: Position) -> None:
        """Counted before anything is parsed: parsing templates is most of the work of compiling."""
        self.templates += 1
        self.code += tokens(text)
        if self.templates > source.MAX_TEMPLATES:
            raise self.stop("DSL801", position, f"more than {source.MAX_TEMPLATES} templates", "split the playbook")
        if self.code > source.MAX_CODE:
            raise self.stop("DSL801", position, f"more than {source.MAX_CODE} words and signs in templates",
                            "split the playbook")

    def value(self, event: Any, text: str, position: Position) -> Any:
        plain, _ = event.implicit
        try:
            if event.tag in (None, "!"):
                return scalars.resolve(text) if plain and event.tag is None else text
            tag = event.tag.removeprefix(scalars.TAG)
            if tag in scalars.TAGS:
                return scalars.tagged(tag, text)
            self.unsupported_tag(event.tag, position)
        except scalars.OutOfRange as error:
            self.report("DSL108", position, f"number {str(error)[:40]} cannot be held",
                        "put quotes around it to keep it as text")
        except ValueError as error:
            self.report("DSL107", position, str(error), "remove the tag")
        return text

    def unsupported_tag(self, tag: str, position: Position) -> None:
        self.report("DSL107", position, f"tag {tag[:60]} is not supported", "remove the tag")

    def sequence(self, start: Any, position: Position, depth: int) -> Node:
        self.collection_tag(start, "seq", position)
        self.spend(1, 0, position)
        nodes, chars, height = self.nodes - 1, self.chars, 0
        found: list[Node] = []
        while type(event := self.next()) is not yaml.SequenceEndEvent:
            item = self.node(event, depth + 1)
            found.append(item)
            if len(found) > source.MAX_ITEMS:
                raise self.limit(position, f"a list of {len(found)} values", source.MAX_ITEMS)
            if item.height > height:
                height = item.height
        return Node(position, found, "", self.nodes - nodes, height + 1, self.chars - chars)

    def mapping(self, start: Any, position: Position, depth: int) -> Node:
        self.collection_tag(start, "map", position)
        self.spend(1, 0, position)
        nodes, chars, height = self.nodes - 1, self.chars, 0
        entries: dict[str, Entry] = {}
        merged: list[Node] = []
        nested = False
        while type(event := self.next()) is not yaml.MappingEndEvent:
            key = self.node(event, depth + 1)
            value = self.node(self.next(), depth + 1)
            if value.height > height:
                height = value.height
            nested = nested or isinstance(key.value, dict)
            if key.value == "<<" and key.style == "":
                merged.extend(self.merges(value))
            else:
                self.enter(entries, key, value)
                if len(entries) > source.MAX_ITEMS:
                    raise self.limit(position, f"a mapping of {len(entries)} keys", source.MAX_ITEMS)
        if start.flow_style and nested and not entries:
            return Node(position, _UNQUOTED)
        for other in merged:
            for name, entry in other.value.items():
                if name not in entries:
                    entries[name] = entry
                    self.reuse(entry.node, position, depth + 1)
                    height = max(height, entry.node.height)
        return Node(position, entries, "", self.nodes - nodes, height + 1, self.chars - chars)

    def collection_tag(self, event: Any, tag: str, position: Position) -> None:
        if event.tag not in (None, "!", scalars.TAG + tag):
            self.unsupported_tag(event.tag, position)

    def enter(self, entries: dict[str, Entry], key: Node, value: Node) -> None:
        if not isinstance(key.value, str):
            what = "a collection" if isinstance(key.value, dict | list) else repr(key.value)
            self.report("DSL105", key.position, f"a key must be text, and this one is {what}",
                        hints.QUOTE if isinstance(key.value, dict) else "put quotes around the key")
        elif key.value in entries:
            first = entries[key.value].key.line
            self.report("DSL104", key.position, f"key {key.value[:60]!r} is already given on line {first}",
                        "keep one of the two")
        else:
            entries[key.value] = Entry(key.position, value)

    def merges(self, value: Node) -> list[Node]:
        nodes = value.value if isinstance(value.value, list) else [value]
        if all(isinstance(node.value, dict) for node in nodes):
            return list(nodes)
        self.report("DSL107", value.position, "<< merges mappings only", "name an anchor of a mapping")
        return []


def _position(event: Any) -> Position:
    return Position(event.start_mark.line + 1, event.start_mark.column + 1)


def _after(text: str) -> Position:
    lines = text.splitlines() if not text.endswith(("\n", "\r")) else [*text.splitlines(), ""]
    return Position(max(len(lines), 1), len(lines[-1]) + 1 if lines else 1)
