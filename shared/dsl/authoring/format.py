"""The canonical source of a playbook: loaded, lowered, and written in one layout. Pure; writing what was
written gives the same text."""

from collections.abc import Iterable, Mapping
from itertools import takewhile

from msgspec import Struct

from shared.dsl.authoring.comments import Comments, comments_of
from shared.dsl.authoring.scalar_style import literal, scalar
from shared.dsl.compile import compile_playbook
from shared.dsl.lower.lower import lower
from shared.dsl.model.diagnostics import Diagnostic
from shared.dsl.model.tool_spec import ToolSpec
from shared.dsl.source.load import load
from shared.dsl.source.nodes import Entry, Node

OTHERWISE = ("DSL930", "DSL931")
WIDTH = 100            # a flow mapping or list stays one only within it
MAX_SIMPLE_KEY = 1000  # YAML takes 1024 characters before the colon; longer keys are written with `?`
ROOT = ("apiVersion", "kind", "metadata", "keychain", "executor", "workload", "workbook", "workflow")
STEP = ("step", "desc", "spec", "loop", "tool", "next")
TASK = ("name", "kind")
_LAST = ("spec",)


class Migrated(Struct, frozen=True):
    """`text` is None when the playbook is not valid; `changed` is what an earlier edition of the language took
    otherwise: of arcs by the lines of the text, of what is lowered by those of the source."""

    text: str | None
    diagnostics: tuple[Diagnostic, ...] = ()
    changed: tuple[Diagnostic, ...] = ()


def canonical(source: str | bytes, *, kinds: Mapping[str, ToolSpec], file: str = "") -> Migrated:
    compiled = compile_playbook(source, kinds=kinds, file=file)
    document, _ = load(source, file=file)
    if compiled.plan is None or document is None:
        return Migrated(None, compiled.diagnostics)
    found = comments_of(source, document)
    lowered = lower(document, kinds, file)
    text = _Emitter(document.lines, found).playbook(lowered.document.root)
    again = compile_playbook(text, kinds=kinds, file=file, strict=True)
    if again.plan is None:  # what lowering made is over a limit of the source, of its bytes or its values
        return Migrated(None, again.diagnostics)
    changed = tuple(each for each in again.diagnostics if each.code in OTHERWISE)
    return Migrated(text, compiled.diagnostics, (*lowered.notes, *changed))


class _Emitter:
    """`lines` are the source's: a collection was in flow style where there is a bracket at its place. A comment stays
    above the key or item it is about; above the step or root key around it, when that one is gone."""

    def __init__(self, lines: list[str], comments: Comments) -> None:
        self.lines, self.comments = lines, comments

    # -- the parts of a playbook

    def playbook(self, root: Node) -> str:
        parts: dict[str, list[str]] = {}
        for key in _ordered(root.value, ROOT):
            node, line = root.value[key].node, root.value[key].key.line
            above = self.comments.take(line)
            if key == "workflow" and isinstance(node.value, list) and node.value:
                parts[key] = [*above, "workflow:", *self.workflow(node.value)]
            else:
                body = self.entry(_head(0, key), node, 0)
                parts[key] = [*above, *self.comments.take_rest(line), *body]
        parts["workflow"][:0] = self.comments.take_all()  # of root keys that are gone
        lines = [line for part in parts.values() for line in part]
        return "\n".join([*self.comments.header, *lines, *self.comments.tail]) + "\n"

    def workflow(self, steps: list[Node]) -> list[str]:
        """A blank line between two steps, unless both are on one line."""
        lines: list[str] = []
        short = True
        for step in steps:
            body = self.step(step)
            short, before = len(body) == 1, short
            if lines and not (short and before):
                lines.append("")
            lines += body
        return lines

    def step(self, step: Node) -> list[str]:
        above = self.comments.take(step.position.line)
        entries: dict[str, Entry] = {key: step.value[key] for key in _ordered(step.value, STEP)}
        if "tool" in entries:
            entries["tool"] = Entry(entries["tool"].key, _tasks(entries["tool"].node))
        body = self.entry("  -", Node(step.position, entries), 2)
        return [*(f"  {line}" for line in (*above, *self.comments.take_rest(step.position.line))), *body]

    # -- values

    def entry(self, head: str, node: Node, indent: int) -> list[str]:
        """The value behind `key:` or `-`; the head is at `indent`, what is below it two further."""
        if isinstance(node.value, str) and (block := literal(node.value, indent + 2)):
            return [f"{head} {block[0]}", *block[1:]]
        if not isinstance(node.value, dict | list):
            return [f"{head} {scalar(node.value)}"]
        if not node.value:
            return [f"{head} {_flow(node)}"]
        if self.was_flow(node) and not _multiline(node) and len(line := f"{head} {_flow(node)}") <= WIDTH:
            return [line]
        below = self.mapping(node, indent + 2) if isinstance(node.value, dict) else self.listing(node, indent + 2)
        if not head.endswith("-"):
            return [head, *below]
        above = [" " * indent + line.strip() for line in takewhile(_is_comment, below)]
        below = below[len(above):]
        return [*above, f"{head} {below[0][indent + 2:]}", *below[1:]]

    def mapping(self, node: Node, indent: int) -> list[str]:
        return [line for key, entry in node.value.items()
                for line in [*self.above(entry.key.line, indent), *self.entry(_head(indent, key), entry.node, indent)]]

    def listing(self, node: Node, indent: int) -> list[str]:
        return [line for each in node.value
                for line in [*self.above(each.position.line, indent), *self.entry(" " * indent + "-", each, indent)]]

    def above(self, line: int, indent: int) -> list[str]:
        return [" " * indent + text for text in self.comments.take(line)]

    def was_flow(self, node: Node) -> bool:
        line, column = node.position.line, node.position.column
        return line <= len(self.lines) and self.lines[line - 1][column - 1:column] in ("{", "[")


def _ordered(entries: Iterable[str], first: tuple[str, ...], last: tuple[str, ...] = ()) -> list[str]:
    given = list(entries)
    rest = [key for key in given if key not in first and key not in last]
    return [key for key in first if key in given] + rest + [key for key in last if key in given]


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _tasks(tool: Node) -> Node:
    return Node(tool.position, [_task(each) for each in tool.value]) if isinstance(tool.value, list) else _task(tool)


def _task(task: Node) -> Node:
    """A task's keys in order; a labelled one's, those of what it labels."""
    if not isinstance(task.value, dict):
        return task
    if "kind" not in task.value and len(task.value) == 1:
        ((label, entry),) = task.value.items()
        return Node(task.position, {label: Entry(entry.key, _task(entry.node)) if _is_task(entry.node) else entry})
    return Node(task.position, {key: task.value[key] for key in _ordered(task.value, TASK, _LAST)})


def _is_task(node: Node) -> bool:
    return isinstance(node.value, dict) and "kind" in node.value


def _head(indent: int, key: str) -> str:
    text, pad = scalar(key), " " * indent
    return f"{pad}{text}:" if len(text) <= MAX_SIMPLE_KEY else f"{pad}? {text}\n{pad}:"


def _flow(node: Node) -> str:
    if isinstance(node.value, dict):
        inner = (f"{scalar(key, flow=True)}: {_flow(entry.node)}" for key, entry in node.value.items())
        return f"{{{', '.join(inner)}}}"
    if isinstance(node.value, list):
        return f"[{', '.join(_flow(each) for each in node.value)}]"
    return scalar(node.value, flow=True)


def _multiline(node: Node) -> bool:
    if isinstance(node.value, dict):
        return any(_multiline(entry.node) for entry in node.value.values())
    if isinstance(node.value, list):
        return any(_multiline(each) for each in node.value)
    return isinstance(node.value, str) and "\n" in node.value
