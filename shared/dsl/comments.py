"""The comments of a source: which there are, and which stand above a step, above a root key or at the top."""

import re

import yaml
from msgspec import Struct

from shared.dsl.source import Document

_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SIGN = re.compile(r"(?:^|(?<=\s))#")


class Comments(Struct):
    """Each is taken once; `count` are all comments of the source, `kept` those taken."""

    count: int = 0
    header: list[str] = []
    roots: dict[str, list[str]] = {}
    steps: dict[str, list[str]] = {}
    kept: int = 0

    def take_header(self) -> list[str]:
        return self._take(self.header)

    def take_root(self, key: str) -> list[str]:
        return self._take(self.roots.pop(key, []))

    def take_step(self, name: str) -> list[str]:
        return self._take(self.steps.pop(name, []))

    def _take(self, lines: list[str]) -> list[str]:
        self.kept += sum(1 for line in lines if line)
        return lines


def comments_of(source: str | bytes, document: Document) -> Comments:
    text = (source.decode("utf-8") if isinstance(source, bytes) else source).removeprefix("\ufeff")
    found = _found(text, document.lines)
    full = {number for number in found if document.lines[number - 1].lstrip().startswith("#")}
    header, top = _header(document.lines, full)
    comments = Comments(len(found), header)
    for key, entry in document.root.value.items():
        comments.roots[key] = _above(document.lines, full, entry.key.line, top)
    workflow = document.root.value.get("workflow")
    for step in workflow.node.value if workflow is not None and isinstance(workflow.node.value, list) else []:
        if isinstance(step.value, dict) and "step" in step.value:
            above = _above(document.lines, full, step.place.line, top)
            comments.steps.setdefault(step.value["step"].node.value, above)
    return comments


def _found(text: str, lines: list[str]) -> set[int]:
    """The numbers of the lines with a comment: a `#` behind a blank and in no scalar."""
    inside: dict[int, list[tuple[int, int]]] = {}
    for token in yaml.scan(text, Loader=_PARSER):
        if isinstance(token, yaml.ScalarToken) and not token.plain:
            first, last = token.start_mark, token.end_mark
            for line in range(first.line + (token.style in ("|", ">")), last.line + 1):  # a comment may follow the sign
                begin = first.column if line == first.line else 0
                end = last.column if line == last.line else len(lines[line])
                inside.setdefault(line + 1, []).append((begin, end))
    return {number for number, line in enumerate(lines, 1)
            if any(not any(begin <= sign.start() < end for begin, end in inside.get(number, []))
                   for sign in _SIGN.finditer(line))}


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


def _above(lines: list[str], full: set[int], line: int, top: int) -> list[str]:
    """The comment lines that end right above the line, below the header."""
    first = line
    while first - 1 in full and first - 1 > top:
        first -= 1
    return [each.strip() for each in lines[first - 1:line - 1]]
