"""The parsed source: nodes that know their place, limits on everything, and the document they make."""

from typing import Any

from msgspec import Struct

MAX_SOURCE_BYTES = 512 * 1024
MAX_DEPTH = 64
MAX_NODES = 60_000          # keys and values, with aliases expanded
MAX_ITEMS = 10_000          # of one list or mapping
MAX_ALIASES = 100
MAX_SCALAR_CHARS = 256 * 1024
MAX_TEXT_CHARS = 2 * 1024 * 1024  # all scalars, with aliases expanded
MAX_TEMPLATES = 10_000      # texts with {{ or {% in them
MAX_CODE = 60_000           # words and signs in the code of all templates
MAX_SOURCE_ERRORS = 500     # mistakes of the YAML itself

Path = tuple[str | int, ...]


class Position(Struct, frozen=True):
    """1-based."""

    line: int
    column: int


class Node(Struct):
    """A value and where it begins. `value` is a scalar, a list of nodes or a dict of entries;
    `nodes`, `height` and `chars` count what it expands to. `style` is YAML's sign for the scalar."""

    position: Position
    value: Any
    style: str = ""
    nodes: int = 1
    height: int = 1
    chars: int = 0

    def plain(self) -> Any:
        if isinstance(self.value, dict):
            return {key: entry.node.plain() for key, entry in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


class Entry(Struct, frozen=True):
    key: Position
    node: Node


class Document(Struct):
    """`data` is plain; `node` and `key` say where a path of it is in the source."""

    root: Node
    lines: list[str]
    data: Any

    def node(self, path: Path) -> Node:
        """The node at the path, or the nearest one above it."""
        found = self.root
        for part in path:
            below = _child(found, part)
            if below is None:
                return found
            found = below
        return found

    def key(self, path: Path) -> Position:
        """Where the key that ends the path is; for a list item, the item."""
        if path:
            owner = self.node(path[:-1]).value
            if isinstance(owner, dict) and path[-1] in owner:
                position: Position = owner[path[-1]].key
                return position
        return self.node(path).position

    def text_line(self, path: Path, offset: int) -> Position:
        """The place of a line inside a text. Only a literal block keeps its lines as in the source."""
        node = self.node(path)
        if node.style not in ("|", ">"):
            return node.position
        line = node.position.line + 1 + (offset if node.style == "|" else 0)
        source = self.lines[line - 1] if line <= len(self.lines) else ""
        return Position(line, len(source) - len(source.lstrip()) + 1)


def _child(node: Node, part: str | int) -> Node | None:
    if isinstance(node.value, dict) and part in node.value:
        below: Node = node.value[part].node
        return below
    if isinstance(node.value, list) and isinstance(part, int) and part < len(node.value):
        item: Node = node.value[part]
        return item
    return None
