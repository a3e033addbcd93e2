"""What lowering works with: nodes built in place of others, generated names, and what went wrong."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from shared.dsl.model.diagnostics import Diagnostic
from shared.dsl.model.edition import EDITION
from shared.dsl.model.plan import Origin, Role
from shared.dsl.model.tool_spec import ToolSpec
from shared.dsl.read.reader import MAX_ERRORS, MAX_NAME, MAX_WARNINGS
from shared.dsl.source.nodes import Entry, Node, Position


class Env(Struct):
    """One lowering under way. `taken` are the names of the author's steps and tasks; `must_match` says that a
    step whose arcs all fail to match is an error; `keys` are all keys the author wrote; `edition` is that of the
    language the playbook is read by. `cases` are the steps with a case, `again` the jumps of a step's task that make
    its call once more."""

    file: str
    kinds: Mapping[str, ToolSpec]
    taken: set[str]
    workbook: dict[str, Node]
    diagnostics: list[Diagnostic]
    labels: dict[str, Origin]
    commands: bool = False  # `command_0` of a SQL task is read somewhere
    must_match: bool = False
    keys: frozenset[str] = frozenset()
    copied: int = 0  # values copied from the workbook so far
    edition: int = EDITION
    cases: set[str] = set()
    again: dict[tuple[str, str], tuple[str, ...]] = {}
    notes: list[Diagnostic] = []  # what an earlier edition took otherwise

    def note(self, node: Node | Position, message: str, fix: str) -> None:
        position = node.position if isinstance(node, Node) else node
        if len(self.notes) < MAX_WARNINGS:
            self.notes.append(Diagnostic(position.line, position.column, "DSL932", message, fix, self.file, "warning"))

    def error(self, node: Node | Position, code: str, message: str, fix: str, *, warning: bool = False) -> None:
        position = node.position if isinstance(node, Node) else node
        severity: Literal["warning", "error"] = "warning" if warning else "error"
        told = sum(each.severity == severity for each in self.diagnostics)
        if told < (MAX_WARNINGS + 1 if warning else MAX_ERRORS):  # one more, so that the reader says there is more
            found = Diagnostic(position.line, position.column, code, message, fix, self.file, severity)
            self.diagnostics += [found] if found not in self.diagnostics else []  # what is lowered twice is told once

    def warn(self, node: Node | Position, code: str, message: str, fix: str) -> None:
        self.error(node, code, message, fix, warning=True)

    def label(self, name: str, position: Position, what: str) -> str:
        """A name for something generated, like no other; the debug map (V10 §15) says what it stands for."""
        stem = name.replace("-", "_")[: MAX_NAME - 5]
        label, number = stem, 2
        while label in self.taken:
            label, number = f"{stem}_{number}", number + 1
        self.taken.add(label)
        self.labels[label] = Origin(position.line, what)
        return label

    def mark(self, label: str, role: Role) -> None:
        """What the task with the generated name is."""
        self.labels[label] = replace(self.labels[label], role=role)


def build(position: Position, value: Any) -> Node:
    """A node for a plain value, which may hold nodes already; all that is new gets `place`."""
    if isinstance(value, Node):
        return value
    if isinstance(value, dict):
        return Node(position, {key: Entry(position, build(position, each)) for key, each in value.items()})
    if isinstance(value, list):
        return Node(position, [build(position, each) for each in value])
    return Node(position, value, style='"' if isinstance(value, str) else "")


def is_map(node: Node | None) -> bool:
    return node is not None and isinstance(node.value, dict)


def is_list(node: Node | None) -> bool:
    return node is not None and isinstance(node.value, list)


def get(node: Node | None, *keys: str) -> Node | None:
    """The node under the keys, or nothing."""
    for key in keys:
        if node is None or not isinstance(node.value, dict) or key not in node.value:
            return None
        node = node.value[key].node
    return node


def text_of(node: Node | None) -> str:
    return node.value if node is not None and isinstance(node.value, str) else ""


def items(node: Node | None) -> Iterator[tuple[str, Node]]:
    if node is not None and isinstance(node.value, dict):
        for key, entry in node.value.items():
            yield key, entry.node


def listed(node: Node | None) -> list[Node]:
    return list(node.value) if node is not None and isinstance(node.value, list) else []


def changed(node: Node, put: Mapping[str, Node | None]) -> Node:
    """The mapping with keys replaced or added, and those with None left out; itself when nothing changes."""
    entries: dict[str, Entry] = {}
    same = True
    for key, entry in node.value.items():
        if key not in put:
            entries[key] = entry
            continue
        new = put[key]
        same = same and new is entry.node
        if new is not None:
            entries[key] = Entry(entry.key, new)
    for key, new in put.items():
        if new is not None and key not in entries:
            entries[key] = Entry(new.position, new)
            same = False
    return node if same else Node(node.position, entries)


def without(node: Node, keys: Iterable[str]) -> Node:
    return changed(node, {key: None for key in keys if key in node.value})


def renamed(node: Node, old: str, new: str) -> Node:
    """The mapping with a key under another name, in the same order."""
    if not isinstance(node.value, dict) or old not in node.value or new in node.value:
        return node
    return Node(node.position, {(new if key == old else key): entry for key, entry in node.value.items()})


def replaced(node: Node, new: list[Node]) -> Node:
    """The list with these items; itself when they are the same."""
    same = len(new) == len(node.value) and all(a is b for a, b in zip(new, node.value, strict=True))
    return node if same else Node(node.position, new)
