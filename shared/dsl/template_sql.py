"""SQL texts: every `{{ }}` becomes a bound parameter, never text of the statement.

A small scanner knows where in the text an output stands:
- in the open, it is `$1`, `$2`, …; it may not touch a word, or `$1` and `5` would become `$15`;
- alone in single quotes or dollar quotes, as in `'{{ x }}'` or `$${{ x }}$$`, it replaces the quotes;
- in a longer literal, a quoted name or a dollar-quoted text it is refused: nothing can be bound there;
- in a comment it is dropped.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jinja2 import nodes
from msgspec import Struct

from shared.dsl.template_compile import Bound, compiled, explain, parse
from shared.dsl.template_data import plain, require
from shared.dsl.template_limits import Context, Limit, check_text
from shared.dsl.view import unwrap

MAX_PARAMS = 32_767  # what Postgres takes with one statement

_WORD = r"[^\W\d][\w$]*"
_OPENING = re.compile(rf"--|/\*|'|\"|\$(?:[^\W\d]\w*)?\$|\$\d+|{_WORD}|\d+")
_CLOSING = {
    "--": re.compile(r"[\n\r]"),
    "/*": re.compile(r"/\*|\*/"),
    "'": re.compile(r"''|'"),
    "e'": re.compile(r"\\[\s\S]|''|'"),
    '"': re.compile(r'""|"'),
}
_NAME_WANTED = re.compile(r"(?:\b(?:into|table|update|join|if\s+(?:not\s+)?exists)\s+|[\w\"]\.)\Z", re.IGNORECASE)
_PREFIXES = ("e", "n")  # of a literal that is a text also without them


class Sql(Struct, frozen=True):
    text: str
    params: list[Any]


def render_sql(source: str, scope: Mapping[str, Any]) -> Sql:
    if "{{" not in source and "{%" not in source:
        return Sql(source, [])
    program = compiled(source, sql=True)
    try:
        return _assemble(*_pieces(program.root(Context(scope))))
    except Exception as error:
        raise explain(error, program) from None


def _pieces(rendered: Iterator[Any]) -> tuple[list[str], list[Bound]]:
    """The outputs and the texts around them: one text more than outputs."""
    texts: list[list[str]] = [[]]
    outputs: list[Bound] = []
    length = 0
    for piece in rendered:
        if isinstance(piece, Bound):
            outputs.append(piece)
            texts.append([])
        else:
            length += len(piece)
            check_text(length)
            texts[-1].append(piece)
    return ["".join(parts) for parts in texts], outputs


def _assemble(texts: list[str], outputs: list[Bound]) -> Sql:
    scan = _Scan()
    scan.text(texts[0])
    for output, following in zip(outputs, texts[1:], strict=True):
        scan.text(scan.output(output, following))
    made = "".join(scan.made)
    check_text(len(made))
    if scan.numbered and scan.params:
        raise TypeError("a SQL text has either `{{ }}` or numbered parameters such as `$1`, not both")
    return Sql(made, scan.params)


class _Scan:
    """`state` is empty in the open, else what the scanner is inside of."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.params: list[Any] = []
        self.numbered = False
        self.state = ""
        self.depth = 0      # of nested comments
        self.cut = 0        # length of a quote, with its prefix, that opens at the very end of the text
        self.touching = ""  # the character before the next output, "{" after another output

    def text(self, text: str) -> None:
        position, self.cut = 0, 0
        while position < len(text):
            position = self._inside(text, position) if self.state else self._open(text, position)
        self.made.append(text)
        self.touching = text[-1:] or self.touching

    def _open(self, text: str, position: int) -> int:
        """Reads up to and with the next opening token."""
        word = ""
        while found := _OPENING.search(text, position):
            token, end = found.group(), found.end()
            if token in ("--", "/*", "'", '"'):
                prefix = word if word and text[found.start() - len(word) : found.start()] == word else ""
                self._enter(token, prefix, end == len(text))
                return end
            if token[0] == "$":
                if not token[-1].isdigit():
                    self.state, self.cut = token, len(token) if end == len(text) else 0
                    return end
                self.numbered = True
            word, position = token, end
        return len(text)

    def _enter(self, token: str, prefix: str, last: bool) -> None:
        self.state, self.depth = token, 1
        if token == "'" and prefix.lower() == "e":
            self.state = "e'"
        if last and token in ("'", '"'):
            self.cut = 1 + (len(prefix) if prefix.lower() in _PREFIXES and token == "'" else 0)

    def _inside(self, text: str, position: int) -> int:
        """Reads up to and with the next token that matters inside, or to the end."""
        closing = _CLOSING.get(self.state)
        found = closing.search(text, position) if closing else None
        if closing is None and (end := text.find(self.state, position)) >= 0:
            position, self.state = end + len(self.state), ""
            return position
        if found is None:
            return len(text)
        token = found.group()
        self.depth += {"/*": 1, "*/": -1}.get(token, 0)
        if token in ("'", '"', "\n", "\r") or self.depth == 0:
            self.state = ""
        return found.end()

    def output(self, output: Bound, following: str) -> str:
        """Places an output and gives what is left of the text after it."""
        if self.state in ("--", "/*"):
            return following
        if self.state:
            following = self._unquote(output, following)
        before, after = self.touching, following[:1] or " "
        edges = '"' if output.is_name else ""
        if before == "{" or _joins(before, edges) or _joins(after, edges):
            raise TypeError("an output touches a word or another output: build the whole in one expression")
        self.touching = "{"
        self.made.append(unwrap(require(output.value)) if output.is_name else self._bind(output.value))
        return following

    def _unquote(self, output: Bound, following: str) -> str:
        quote = self.state[-1]
        if quote == "$":
            if output.is_name or not self.cut or not following.startswith(self.state):
                raise TypeError("an output cannot stand in a dollar-quoted text: nothing can be bound there")
            return self._replace(following[len(self.state):])
        if output.is_name != (quote == '"'):
            hint = "write {{ … | identifier }} for a name" if quote == '"' else "an identifier is not a text"
            raise TypeError(f"an output in {quote} quotes: {hint}")
        if not self.cut or following[:1] != quote or following[1:2] == quote:
            raise TypeError("an output in a longer literal: join its parts, as in '%' || {{ x }} || '%'")
        return self._replace(following[1:])

    def _replace(self, following: str) -> str:
        """Takes the opening quote back; `following` is what comes after the closing one."""
        last = self.made.pop()
        self.made.append(last[: -self.cut])
        self.touching, self.state = last[: -self.cut][-1:], ""
        return following

    def _bind(self, value: Any) -> str:
        self.params.append(plain(value))
        if len(self.params) > MAX_PARAMS:
            raise Limit(f"too many parameters (limit {MAX_PARAMS})")
        return f"${len(self.params)}"


def _joins(char: str, edges: str) -> bool:
    return bool(char) and (char.isalnum() or char in "_$" or ord(char) > 127 or char in edges)


def misplaced(source: str) -> tuple[str, int] | None:
    """Why an output of the text cannot be bound where it stands, and its line counted from 0. What the
    blocks of a text yield is not known before it is rendered, so one with blocks passes here."""
    if "{{" not in source:
        return None
    body = parse(source).body
    if not all(isinstance(part, nodes.Output) for part in body):
        return None
    texts, outputs = [""], []
    for node in (node for part in body if isinstance(part, nodes.Output) for node in part.nodes):
        if isinstance(node, nodes.TemplateData):
            texts[-1] += node.data
        else:
            outputs.append((Bound("", isinstance(node, nodes.Filter) and node.name == "identifier"), node.lineno))
            texts.append("")
    scan = _Scan()
    scan.text(texts[0])
    for (output, line), before, following in zip(outputs, texts, texts[1:], strict=False):
        if not output.is_name and not scan.state and _NAME_WANTED.search(before):
            return "a value stands where SQL wants a name: write {{ … | identifier }}", line - 1
        try:
            scan.text(scan.output(output, following))
        except TypeError as error:
            return str(error), line - 1
    return None
