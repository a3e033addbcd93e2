"""Names in templates: free names are replaced in the token stream of each `{{ }}` and `{% %}`, never in
text around them, in strings, after a dot, or as the name of a keyword argument."""

from collections.abc import Callable, Mapping, Set
from functools import lru_cache
from typing import Any, NamedTuple

from jinja2 import Environment, TemplateSyntaxError
from msgspec import Struct

from shared.dsl.model.texts import Text
from shared.dsl.source.nodes import Entry, Node
from shared.events.aliases import ENTER, FORMER

_LEXER = Environment(keep_trailing_newline=True)
_SPACE = ("whitespace", "linecomment", "comment")
_OPEN = ("variable_begin", "block_begin")
_CLOSE = ("variable_end", "block_end")
_WRITTEN = ("step.done", "call.done", "step.exit", "step.failed", "call.error")  # kept in arcs as they are
_OK, _FAILED = FORMER["step.done"], FORMER["step.failed"]
_IN_ARCS = {name: event for event in ("step.done", "step.failed") for name in FORMER[event]
            if name not in _WRITTEN}


class Names(Struct, frozen=True):
    """What names stand for at one place. `dotted` are `name.attribute` pairs, looked up before `plain`, and `deep` are
    `name.attribute.attribute`, looked up before those. `now` is what `now()` stands for.

    `ok`, `failed`, `entered` are tests that take the place of comparisons with `event.name` on a worker; all
    empty in an arc, where the event itself is there. `message` is the error as text (FS §7.3). With `events` they are
    those of one event of a step (`formal/events.py`): a test for each name that it has, and `event` for the name
    itself; any other name is another event's.

    `whole` is what a name stands for that is read as a whole, and `tested` where it is only tested: `response is
    defined` asks whether there was a success. `asks`: the text is a condition. `spelled`: in an arc too the name of the
    event is that of one event of the step."""

    plain: Mapping[str, str] = {}
    dotted: Mapping[tuple[str, str], str] = {}
    ok: str = ""
    failed: str = ""
    entered: str = ""
    message: str = ""
    arc: bool = False
    exit_on_error: bool = False
    deep: Mapping[tuple[str, str, str], str] = {}
    now: str = ""
    events: Mapping[str, str] | None = None
    event: str = ""
    whole: Mapping[str, str] = {}
    tested: Mapping[str, str] = {}
    asks: bool = False
    spelled: bool = False

    @property
    def knows_events(self) -> bool:
        return self.arc or bool(self.ok) or self.events is not None


class Token(NamedTuple):
    at: int  # in the list of all pieces
    kind: str
    text: str
    depth: int
    opens: bool  # first after `{%`, so a keyword


def rewrite(text: str, names: Names) -> str:
    """The text with its free names replaced; the same object when there is nothing to replace."""
    if ("{{" not in text and "{%" not in text) or not _may_hold(text, names):
        return text
    try:
        pieces, tokens = [value for _, value in _lexed(text)], _tokens(text)
    except TemplateSyntaxError:
        return text  # the reader of templates tells it
    local = _locals(tokens)
    index = 0
    while index < len(tokens):
        new, used = _replacement(tokens, index, names, local)
        if new is not None:
            pieces[tokens[index].at] = new
            last = tokens[index + used - 1].at
            pieces[tokens[index].at + 1:last + 1] = [""] * (last - tokens[index].at)
        index += used
    joined = "".join(pieces)
    return text if joined == text else Text(joined, written_of(text))


def written_of(text: str) -> str:
    """What the author wrote, of a text that may have been rewritten already."""
    return text.written or str(text) if isinstance(text, Text) else text


def _may_hold(text: str, names: Names) -> bool:
    """A cheap look, so that most texts are never taken apart."""
    if (names.knows_events and "event" in text) or any(name in text for name in names.plain):
        return True
    if names.now and "now" in text:
        return True
    return any(name in text and attribute in text for name, attribute, *_ in (*names.dotted, *names.deep))


def free_names(text: str) -> set[str]:
    """The names a template reads; of a text that does not parse, none."""
    try:
        tokens = _tokens(text)
    except TemplateSyntaxError:
        return set()
    return {token.text for index, token in enumerate(tokens) if _is_free(tokens, index)} - _locals(tokens)


@lru_cache(maxsize=256)
def asks_for_errors(text: str) -> bool:
    """Whether a rule on `step.exit` wants the failed exit too: it reads `error`, or tests that there is
    no response."""
    return "error" in free_names(text) or _says(text, ("response", "is", "not", "defined")) \
        or _says(text, ("result", "is", "not", "defined")) or bool(event_names(text) & _FAILED) \
        or _says(text, ("event", ".", "name", "!=")) or _says(text, ("event", ".", "name", "not"))


def asks_what_happened(text: str) -> bool:
    """Whether an arc's condition, as its author wrote it, is about how the step ended and not about its data."""
    return bool(free_names(text) & {"event", "error"}) or any(
        attributes_read(text, name) & {"error", "status"} for name in ("output", "outcome"))


def event_names(text: str) -> set[str]:
    """The event names that a condition compares with: all texts in it."""
    try:
        tokens = _tokens(text)
    except TemplateSyntaxError:
        return set()
    if not any(_is_event_name(tokens, index) for index in range(len(tokens))):
        return set()
    return {token.text[1:-1] for token in tokens if token.kind == "string"}


def is_enter(text: str) -> bool:
    return bool(event_names(text) & ENTER)


def expression(text: str) -> str | None:
    """What is between the braces, if the text is exactly one `{{ expression }}`."""
    stripped = text.strip()
    try:
        kinds = [kind for kind, _ in _lexed(stripped)]
    except TemplateSyntaxError:
        return None
    if kinds[:1] == ["variable_begin"] and kinds[-1:] == ["variable_end"] and kinds.count("variable_begin") == 1:
        inner = stripped[2:-2]
        inner = inner[1:] if inner[:1] in ("-", "+") else inner  # signs at the braces trim whitespace
        return (inner[:-1] if inner[-1:] in ("-", "+") else inner).strip()
    return None


def literal(value: Any) -> str | None:
    """A plain value as an expression has it; nothing for a collection."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, str | int | float) else None


def renamed_node(node: Node, names: Names) -> Node:
    """The node with all its templates rewritten; itself when nothing changes."""
    return mapped_node(node, lambda text: rewrite(text, names))


def mapped_node(node: Node, change: Callable[[str], str]) -> Node:
    """The node with every text changed; itself when each comes back as the same object."""
    value: Any = node.value
    if isinstance(value, str):
        new = change(value)
        return node if new is value else Node(node.position, new, node.style)
    if isinstance(value, dict):
        entries = {key: Entry(entry.key, mapped_node(entry.node, change)) for key, entry in value.items()}
        same = all(entries[key].node is value[key].node for key in value)
        return node if same else Node(node.position, entries)
    if isinstance(value, list):
        below = [mapped_node(each, change) for each in value]
        return node if all(a is b for a, b in zip(below, value, strict=True)) else Node(node.position, below)
    return node


def attributes_read(text: str, name: str) -> set[str]:
    """The attributes that a template reads of a free name."""
    try:
        tokens = _tokens(text)
    except TemplateSyntaxError:
        return set()
    return {_text(tokens, index + 2) for index, token in enumerate(tokens)
            if token.text == name and _is_free(tokens, index) and _text(tokens, index + 1) == "."}


def below_read(text: str, between: str) -> set[tuple[str, str]]:
    """The pairs (name, attribute) of all `name.<between>.attribute` that a template reads."""
    if between not in text:
        return set()
    try:
        tokens = _tokens(text)
    except TemplateSyntaxError:
        return set()
    return {(token.text, _text(tokens, index + 4)) for index, token in enumerate(tokens)
            if [_text(tokens, index + step) for step in (1, 2, 3)] == [".", between, "."] and _is_free(tokens, index)}


def _lexed(text: str) -> list[tuple[str, str]]:
    """The kind and the text of every piece."""
    found = _pieces(text)
    if isinstance(found, TemplateSyntaxError):
        raise found.with_traceback(None)
    return found


@lru_cache(maxsize=256)  # the rules of a case are read again for each of them, also those that cannot be read
def _pieces(text: str) -> list[tuple[str, str]] | TemplateSyntaxError:
    try:
        return [(kind, value) for _, kind, value in _LEXER.lex(text)]
    except TemplateSyntaxError as error:
        return error


@lru_cache(maxsize=256)
def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    inside = opens = False
    depth = 0
    for at, (kind, value) in enumerate(_lexed(text)):
        if kind in _OPEN:
            inside, depth, opens = True, 0, kind == "block_begin"
        elif kind in _CLOSE:
            inside = False
        elif inside and kind not in _SPACE:
            depth += (value in "([{") - (value in ")]}") if kind == "operator" else 0
            tokens.append(Token(at, kind, value, depth, opens))
            opens = False
    return tokens


_WORDS = frozenset(("and", "or", "not", "in", "is", "if", "else", "elif", "for", "true", "false", "none", "True",
                    "False", "None", "recursive"))


def _text(tokens: list[Token], index: int) -> str:
    return tokens[index].text if 0 <= index < len(tokens) else ""


def _is_free(tokens: list[Token], index: int) -> bool:
    token = tokens[index]
    if token.kind != "name" or token.text in _WORDS or token.opens:
        return False
    before, after = _text(tokens, index - 1), _text(tokens, index + 1)
    if before in (".", "|") or (before == "is" and token.text != "not"):
        return False
    if before == "not" and _text(tokens, index - 2) == "is":
        return False
    return not (after == "=" and token.depth > 0)


def _locals(tokens: list[Token]) -> set[str]:
    """Names that a `for` or `set` binds somewhere in the text; those are left alone everywhere."""
    bound: set[str] = set()
    for index, token in enumerate(tokens):
        if token.opens and token.text in ("for", "set"):
            end = "in" if token.text == "for" else "="
            for later in tokens[index + 1:]:
                if later.text == end or later.opens:
                    break
                if later.kind == "name":
                    bound.add(later.text)
    return bound


def _is_event_name(tokens: list[Token], index: int) -> bool:
    return (_text(tokens, index), _text(tokens, index + 1), _text(tokens, index + 2)) == ("event", ".", "name") \
        and _is_free(tokens, index)


def _says(text: str, words: tuple[str, ...]) -> bool:
    try:
        texts = [token.text for token in _tokens(text)]
    except TemplateSyntaxError:
        return False
    return any(tuple(texts[at:at + len(words)]) == words for at in range(len(texts)))


def _replacement(tokens: list[Token], index: int, names: Names, local: set[str]) -> tuple[str | None, int]:
    """What replaces the tokens from here on, and how many; (None, 1) for nothing."""
    token = tokens[index]
    if token.kind == "string" and _text(tokens, index + 1) in ("==", "!=") and _is_event_name(tokens, index + 2):
        return _compared(names, _text(tokens, index + 1), [token.text[1:-1]]), 5
    if token.text in local or not _is_free(tokens, index):
        return None, 1
    if _is_event_name(tokens, index) and names.knows_events:
        return _event_name(tokens, index, names)
    if token.text == "now" and names.now and (used := _clock(tokens, index)):
        return names.now, used
    attribute = _text(tokens, index + 2) if _text(tokens, index + 1) == "." else ""
    below = _text(tokens, index + 4) if attribute and _text(tokens, index + 3) == "." else ""
    if below and (token.text, attribute, below) in names.deep:
        return names.deep[token.text, attribute, below], 5
    if attribute and (token.text, attribute) in names.dotted:
        found = names.dotted[token.text, attribute]
        return (_or_none(found) if attribute == "error" and _meets_none(tokens, index + 3) else found), 3
    if token.text == "error" and names.message and not _as_object(tokens, index):
        return names.message, 1
    if token.text == "error" and "error" in names.plain and _meets_none(tokens, index + 1):
        return _or_none(names.plain["error"]), 1
    if _text(tokens, index + 1) not in (".", "["):
        if token.text in names.tested and _is_tested(tokens, index, condition=names.asks):
            return names.tested[token.text], 1
        if token.text in names.whole:
            return names.whole[token.text], 1
    return names.plain.get(token.text), 1


def _is_tested(tokens: list[Token], index: int, *, condition: bool) -> bool:
    """Whether a name is only asked for its truth, or for what it is."""
    before, after = _text(tokens, index - 1), _text(tokens, index + 1)
    if after == "is" or (before in ("if", "not") and after in ("", "and", "or", "else", ")")):
        return True
    return condition and before in ("", "(", "and", "or") and after in ("", ")", "and", "or", "if")


def reads_beyond(text: str, names: Set[str], attributes: Set[str]) -> bool:
    """Whether a template reads more of these names than these attributes, or than whether they are there."""
    try:
        tokens = _tokens(text)
    except TemplateSyntaxError:
        return False
    for index, token in enumerate(tokens):
        if token.text not in names or not _is_free(tokens, index):
            continue
        dotted = _text(tokens, index + 1) == "." and _text(tokens, index + 2) in attributes
        if not dotted and not _is_tested(tokens, index, condition=False):
            return True
    return False


def _clock(tokens: list[Token], index: int) -> int:
    """How many tokens `now()` has here, also `now().isoformat()`, which is the same text; 0 if it is another name."""
    rest = [_text(tokens, index + step) for step in range(1, 7)]
    if rest[:2] != ["(", ")"]:
        return 0
    return 7 if rest[2:] == [".", "isoformat", "(", ")"] else 3


def _meets_none(tokens: list[Token], index: int) -> bool:
    """`error is not none`: of a success it is none, though what stands for it here is undefined."""
    rest = [_text(tokens, index + step).lower() for step in range(3)]
    return rest == ["is", "not", "none"] or (rest[0] in ("is", "==", "!=") and rest[1] == "none")


def _or_none(text: str) -> str:
    return f"({text} | default(none))"


def _as_object(tokens: list[Token], index: int) -> bool:
    rest = [_text(tokens, index + step) for step in (1, 2, 3)]
    return rest[0] in (".", "[") or rest[:2] == ["is", "defined"] or rest == ["is", "not", "defined"]


def _event_name(tokens: list[Token], index: int, names: Names) -> tuple[str | None, int]:
    rest = [_text(tokens, index + step) for step in range(3, 6)]
    if rest[0] in ("==", "!=") and rest[1][:1] in ("'", '"'):
        return _compared(names, rest[0], [rest[1][1:-1]]), 5
    words = 2 if rest[:2] == ["not", "in"] else 1 if rest[0] == "in" else 0
    if words and _text(tokens, index + 3 + words) in ("[", "("):
        at, given = index + 4 + words, []
        while at < len(tokens) and (tokens[at].kind == "string" or tokens[at].text == ","):
            given += [tokens[at].text[1:-1]] if tokens[at].kind == "string" else []
            at += 1
        if _text(tokens, at) in ("]", ")"):
            return _compared(names, "!=" if words == 2 else "==", given), at + 1 - index
    if names.events is not None:
        return names.event or None, 3
    if names.arc:
        return None, 3
    return f"('call.error' if {names.failed} else 'call.done')", 3


def _compared(names: Names, sign: str, given: list[str]) -> str:
    """A comparison of the event's name with these texts, as a test that holds at this place."""
    exits = names.exit_on_error and "step.exit" in given
    if names.events is not None:
        tests = list(dict.fromkeys(names.events[each] for each in given if each in names.events)) or ["false"]
        if "true" in tests or tests == ["false"]:
            return "true" if ("true" in tests) == (sign == "==") else "false"
    elif names.arc:
        if exits:
            return "true" if sign == "==" else "false"
        texts = [repr(_IN_ARCS.get(each, each)) for each in given]
        tests = [f"event.name == {text}" for text in texts] or ["false"]
    else:
        tests = [test for test, known in ((names.ok, _OK), (names.failed, _FAILED), (names.entered, ENTER))
                 if test and (known & set(given) or (exits and known is _FAILED))] or ["false"]
    joined = tests[0] if len(tests) == 1 else f"({' or '.join(tests)})"
    if sign == "==":
        return joined
    return joined.replace(" == ", " != ") if joined.startswith("event.name ==") else f"(not ({joined}))"
