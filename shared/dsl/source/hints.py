"""What to do about a source that is not YAML. The parser says where it stopped, which is often the line after the
mistake; from the indentation of the lines around it follows what was meant."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from shared.dsl.source.nodes import Position

QUOTE = "put quotes around a text that begins with {{"
GENERAL = "check indentation, colons and quotes here"
_BEGINS_TEMPLATE = re.compile(r"(^\s*|[:,\[-]\s+)\{\{")
_BLOCK = re.compile(r"[:-]\s+[|>][-+1-9]*\s*(#.*)?$")  # a key whose text follows
_ENTRY = re.compile(r"\s*-\s+")
_PLAIN = re.compile(r"^\s*(?:-\s+)?[\w.-]+:\s+[^\s'\"\[{|>&*!#][^'\"]*?:(\s|$)")

_UNCLOSED = re.compile(r"expected ',' or '([}\]])'")
_OPENS = {"}": "{", "]": "["}


class _Above(NamedTuple):
    line: int
    text: str

    @property
    def indent(self) -> int:
        return _indent(self.text)


def hint(lines: Sequence[str], position: Position, problem: str, began: int = 0) -> str:
    """`began` is the line of what the parser was reading, where it says so."""
    text = lines[position.line - 1] if position.line <= len(lines) else ""
    indent = _indent(text)
    if "\t" in text[:max(position.column, len(text) - len(text.lstrip()))]:
        return "indent with spaces, not with tabs"
    above = _above(lines, position.line)
    owner = next((each for each in above if each.indent < indent), None)
    if owner is not None and _BLOCK.search(owner.text) and above[0].line > owner.line:
        first = lines[owner.line].strip() and _indent(lines[owner.line])
        return f"the text that line {owner.line} begins is indented by {first}: indent all of its lines as far"
    opened = lines[began - 1] if 0 < began <= len(lines) else ""
    if _BEGINS_TEMPLATE.search(text) or ("{{" in opened and _BEGINS_TEMPLATE.search(opened)):
        return QUOTE
    if found := _UNCLOSED.search(problem):
        return f"separate by commas what the {_OPENS[found[1]]} of line {began} holds, and close it with {found[1]}"
    if "end of stream" in problem and began:
        return f"close the quote that line {began} opens"
    if "mapping values are not allowed" in problem:
        return _unexpected_colon(text, indent, above)
    if "'-' indicator" in problem:
        return _no_entry(indent, above)
    if above and indent not in _levels(above):
        return _between(indent, _levels(above))
    return QUOTE if "{{" in text and '"' not in text and "'" not in text else GENERAL


def _unexpected_colon(text: str, indent: int, above: Sequence[_Above]) -> str:
    """A key below a value, or a colon within one."""
    if _PLAIN.search(text):
        return 'put quotes around a text that holds ": "'
    if above and indent > (level := _levels(above)[0]):
        what = f"line {above[0].line} has a value already"
        return f"{what}: indent this line by {level} as well, or give that one no value"
    return GENERAL


def _no_entry(indent: int, above: Sequence[_Above]) -> str:
    entry = next((each for each in above if each.indent == indent and _ENTRY.match(each.text)), None)
    if entry is None:
        return GENERAL
    return f"indent it by {_content(entry.text)} to belong to the entry of line {entry.line}, or begin another with -"


def _between(indent: int, levels: Sequence[int]) -> str:
    deeper = [level for level in levels if level > indent]
    lower = [level for level in levels if level < indent]
    near = [str(level) for level in (*lower[:1], *deeper[-1:])]
    return f"it is indented by {indent}: indent it by {' or '.join(near)}, as the lines above it are"


def _above(lines: Sequence[str], line: int) -> list[_Above]:
    """The lines before it that hold anything, the nearest first."""
    found = [_Above(number, text) for number, text in enumerate(lines[:line - 1], 1)]
    return [each for each in reversed(found) if each.text.strip() and not each.text.lstrip().startswith("#")]


def _levels(above: Sequence[_Above]) -> list[int]:
    """The indentations at which something that was begun above may go on, the deepest first."""
    found: list[int] = []
    for each in above:
        if not found or each.indent < found[-1]:
            content = _content(each.text)
            found += [content] if content > each.indent and (not found or content < found[-1]) else []
            found.append(each.indent)
    return found


def _content(text: str) -> int:
    """Where what an entry of a list holds begins; of any other line, where it begins."""
    entry = _ENTRY.match(text)
    return entry.end() if entry else _indent(text)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" "))
