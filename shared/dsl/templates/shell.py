"""Shell texts: every `{{ }}` becomes a variable of the shell, never text of the program.

The value goes into the environment as `NOETL_V0`, `NOETL_V1`, … and the text gets its name, quoted for the
place where it is: one word between words, part of the text between quotes. So a value is data whatever it
holds. A list that is alone between words is one word for each element. Truth is `true` and `false`,
nothing is the empty text, and a mapping or list within a text is JSON.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from jinja2 import nodes
from msgspec import Struct

from shared.dsl.model.texts import Text
from shared.dsl.templates.budget import Limit
from shared.dsl.templates.compiler import Bound, compiled, explain, parse, reading
from shared.dsl.templates.limits import Context, check_text
from shared.dsl.templates.shell_scanner import MARK, Misplaced, Place, places
from shared.dsl.templates.values import pay_written, plain, text

PREFIX = "NOETL_V"
SCANNED = 4  # units of a character of the program
MAX_VARIABLE_BYTES = 131_000  # Linux allows 128 KiB for one variable, its name included
MAX_VARIABLES = 1_048_576  # characters of all variables of a task's programs, their names included
_FORMS: dict[Place, str] = {
    "word": '"${%s}"', "open": '"${%s}"', "double": "${%s}", "single": "'\"${%s}\"'", "ansi": "'\"${%s}\"$'",
    "number": "${%s}",
}
_NUMBER = re.compile(r"[+-]?[0-9]+\Z")
_WHOLE = ("the command itself is a value: write the program out and put values into it, "
          'or eval "{{ … }}" when the value is meant to be a program')


class Script(Struct, frozen=True):
    """`values` are the variables the text reads."""

    text: str
    values: dict[str, str]


def render_shell(source: Any, scope: Mapping[str, Any]) -> Any:
    """A text as a Script, a list of texts as Scripts with variables of their own; anything else is left for
    the tool to refuse."""
    names: dict[str, str] = {}
    if isinstance(source, list):
        return [_render(each, scope, names) if isinstance(each, str) else each for each in source]
    return _render(source, scope, names) if isinstance(source, str) else source


def _render(source: str, scope: Mapping[str, Any], names: dict[str, str]) -> Script:
    if "{{" not in source and "{%" not in source:
        return Script(source, {})
    if type(source) is Text:
        with reading(source):
            return _render(str(source), scope, names)
    program = compiled(source, sql=True)
    context = Context(scope, program.cost)
    try:
        if context.left < 0:
            context.over()
        marked, outputs = _pieces(context, program.root(context))
        context.spend(SCANNED * len(marked))
        return _assemble(marked, outputs, names)
    except Exception as error:
        raise explain(error, program) from None
    finally:
        context.close()


def _pieces(context: Context, rendered: Any) -> tuple[str, list[Any]]:
    """The text with a mark for each output, and the outputs."""
    parts: list[str] = []
    outputs: list[Any] = []
    length = 0
    for piece in rendered:
        parts.append(MARK if isinstance(piece, Bound) else piece)
        if isinstance(piece, Bound):
            pay_written(context, piece.value)
            outputs.append(plain(piece.value))
        length += len(parts[-1])
        check_text(length)
    return "".join(parts), outputs


def _assemble(marked: str, outputs: list[Any], names: dict[str, str]) -> Script:
    """`names` are the values that have a variable already, with its name."""
    if marked.strip() == MARK:
        raise TypeError(_WHOLE)
    where = places(marked)
    if len(where) != len(outputs):
        raise TypeError("the text holds a character that no shell takes")
    written = [_written(value, place, names) for value, place in zip(outputs, where, strict=True)]
    if sum(len(value) + len(name) for value, name in names.items()) > MAX_VARIABLES:
        raise Limit(f"the values are too large for a shell (limit {MAX_VARIABLES} characters)")
    texts = marked.split(MARK)
    made = texts[0] + "".join(each + following for each, following in zip(written, texts[1:], strict=True))
    check_text(len(made))
    return Script(made, {name: value for value, name in names.items()})


def _written(value: Any, place: Place, names: dict[str, str]) -> str:
    if place == "word" and isinstance(value, list):
        return " ".join(_FORMS["word"] % _named(as_text(each), names) for each in value)
    given = as_text(value)
    if place == "number" and not _NUMBER.match(given):
        raise TypeError("a value in shell arithmetic that is not a whole number")
    return _FORMS[place] % _named(given, names)


def _named(value: str, names: dict[str, str]) -> str:
    """The variable that holds the value; equal values share one."""
    if value not in names:
        check_variable(value)
        names[value] = f"{PREFIX}{len(names)}"
    return names[value]


def check_variable(value: str) -> None:
    """Whether the environment of a process can hold it."""
    if "\0" in value:
        raise TypeError("a value with a NUL character cannot be given to a shell")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise TypeError("a value that is not Unicode text cannot be given to a shell") from None
    if size > MAX_VARIABLE_BYTES:
        raise Limit(f"a value is too large for a shell (limit {MAX_VARIABLE_BYTES} bytes); hand it over in stdin")


def as_text(value: Any) -> str:
    """A value as a shell has it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return msgspec.json.encode(value).decode()
    return text(value)


def misplaced(source: str) -> tuple[str, int] | None:
    """Why an output of the text cannot be where it is, and its line, counted from 0. What the blocks
    of a text yield is not known before it is rendered, so one with blocks passes here."""
    if "{{" not in source:
        return None
    body = parse(source).body
    if not all(isinstance(part, nodes.Output) for part in body):
        return None
    found = [node for part in body if isinstance(part, nodes.Output) for node in part.nodes]
    marked = "".join(node.data if isinstance(node, nodes.TemplateData) else MARK for node in found)
    if marked.strip() == MARK:
        return _WHOLE, 0
    try:
        places(marked)
    except Misplaced as error:
        outputs = [node for node in found if not isinstance(node, nodes.TemplateData)]
        return str(error), outputs[error.index].lineno - 1
    return None
