"""The comments of a source, each with the line it is about: its own, or the next one with anything on it."""

import re
from bisect import bisect_right

import yaml
from msgspec import Struct

from shared.dsl.source.nodes import Document

_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SIGN = re.compile(r"(?:^|(?<=\s))#")


class Comments(Struct):
    """Each is used once. `header` is before all else, `tail` behind it; `parts` are the lines at which root
    keys and steps begin."""

    header: list[str]
    lines: dict[int, list[str]]
    tail: list[str]
    parts: list[int]

    def take(self, line: int) -> list[str]:
        return self.lines.pop(line, [])

    def take_rest(self, line: int) -> list[str]:
        """What is left of the part that begins at the line."""
        after = bisect_right(self.parts, line)
        end = self.parts[after] if after < len(self.parts) else None
        inside = sorted(at for at in self.lines if at >= line and (end is None or at < end))
        return [text for at in inside for text in self.take(at)]

    def take_all(self) -> list[str]:
        return [text for at in sorted(self.lines) for text in self.take(at)]


def comments_of(source: str | bytes, document: Document) -> Comments:
    text = (source.decode("utf-8") if isinstance(source, bytes) else source).removeprefix("\ufeff")
    found = _found(text, document.lines)
    full = {number for number in found if document.lines[number - 1].lstrip().startswith("#")}
    header, top = _header(document.lines, full)
    comments = Comments(header, {}, [], _parts(document))
    waiting: list[str] = []
    for number, line in enumerate(document.lines, 1):
        if number <= top or not line.strip():
            continue
        waiting += [found[number]] if number in found else []
        if number not in full and waiting:
            comments.lines[number], waiting = waiting, []
    comments.tail = waiting
    return comments


def _parts(document: Document) -> list[int]:
    lines = {entry.key.line for entry in document.root.value.values()}
    workflow = document.root.value.get("workflow")
    steps = workflow.node.value if workflow is not None and isinstance(workflow.node.value, list) else []
    return sorted(lines | {step.position.line for step in steps})


def _found(text: str, lines: list[str]) -> dict[int, str]:
    """The comments by their lines: from a `#` behind a blank and in no scalar."""
    inside: dict[int, list[tuple[int, int]]] = {}
    for token in yaml.scan(text, Loader=_PARSER):
        if isinstance(token, yaml.ScalarToken) and not token.plain:
            first, last = token.start_mark, token.end_mark
            for line in range(first.line + (token.style in ("|", ">")), last.line + 1):  # a comment may follow the sign
                begin = first.column if line == first.line else 0
                end = last.column if line == last.line else len(lines[line])
                inside.setdefault(line + 1, []).append((begin, end))
    found: dict[int, str] = {}
    for number, text_ in enumerate(lines, 1):
        signs = (sign.start() for sign in _SIGN.finditer(text_))
        sign = next((at for at in signs if not any(begin <= at < end for begin, end in inside.get(number, []))), None)
        if sign is not None:
            found[number] = text_[sign:].rstrip()
    return found


def _header(lines: list[str], full: set[int]) -> tuple[list[str], int]:
    """The comments before all else, parted by at most one blank line, and the line they end at."""
    header: list[str] = []
    last = 0
    for number, line in enumerate(lines, 1):
        if number in full:
            header += [""] if header and last < number - 1 else []
            header.append(line.strip())
            last = number
        elif line.strip():
            break
    return header, last
