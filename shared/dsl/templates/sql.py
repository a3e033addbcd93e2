"""SQL texts: every `{{ }}` becomes a bound parameter or a quoted name, never text of the statement. A
text that is one `{{ expression }}` alone is the statement itself."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from jinja2 import nodes
from msgspec import Struct

from shared.dsl.model.texts import Text
from shared.dsl.templates.compiler import Bound, compiled, exact, explain, is_doubled, parse, reading
from shared.dsl.templates.limits import Context, check_text
from shared.dsl.templates.sql_tokens import MARK
from shared.dsl.templates.sql_writer import Writer
from shared.dsl.templates.values import final, pay_written


class Sql(Struct, frozen=True):
    text: str
    params: list[Any]


def render_sql(source: str, scope: Mapping[str, Any]) -> Sql:
    if "{{" not in source and "{%" not in source:
        return Sql(source, [])
    if type(source) is Text:
        with reading(source):
            return render_sql(str(source), scope)
    program = compiled(source, sql=True)
    context = Context(scope, program.cost)
    try:
        if context.left < 0:
            context.over()
        pieces = program.root(context)
        return _command(context, pieces) if program.exact else _assemble(context, *_pieces(context, pieces))
    except Exception as error:
        raise explain(error, program) from None
    finally:
        context.close()


def _command(context: Context, pieces: Iterator[Any]) -> Sql:
    """Nothing can be bound in a command that is one value: it is what is run."""
    value = final(context, next(pieces).value)
    if not isinstance(value, str):
        raise TypeError("a command that is one expression must yield text")
    return Sql(value, [])


def _pieces(context: Context, rendered: Iterator[Any]) -> tuple[str, list[Bound]]:
    """The text with a mark for each output, and the outputs."""
    parts: list[str] = []
    outputs: list[Bound] = []
    length = 0
    for piece in rendered:
        if isinstance(piece, Bound):
            pay_written(context, piece.value)
            outputs.append(piece)
            parts.append(MARK)
        else:
            length += len(piece)
            check_text(length)
            if MARK in piece:
                raise TypeError("a SQL text cannot hold the character NUL")
            parts.append(piece)
    return "".join(parts), outputs


def _assemble(context: Context, source: str, outputs: list[Bound]) -> Sql:
    writer = Writer(outputs, context.spend)
    writer.write(source)
    made = "".join(writer.made)
    check_text(len(made))
    if writer.numbered and writer.params:
        raise TypeError("a SQL text has either `{{ }}` or numbered parameters such as `$1`, not both")
    return Sql(made, writer.params)


class Finding(NamedTuple):
    """What is to be reported about a SQL text. `line` is counted from 0."""

    code: str
    message: str
    fix: str
    line: int


_NAME_FIX = "write {{ … | identifier }}, which says so"


def survey(source: str) -> list[Finding]:
    """What blocks of a text yield is not known before it is rendered, so one with blocks passes here."""
    if "{{" not in source:
        return []
    tree = parse(source)
    if exact(tree) is not None:
        return [Finding("DSL916", "the whole command is the value of an expression and is run as it is",
                        "write the statement here, and only its values as {{ … }}", 0)]
    if not all(isinstance(part, nodes.Output) for part in tree.body):
        return []
    text, outputs, lines = "", [], []
    for node in (node for part in tree.body if isinstance(part, nodes.Output) for node in part.nodes):
        if isinstance(node, nodes.TemplateData):
            text += node.data
        else:
            name = isinstance(node, nodes.Filter) and node.name == "identifier"
            outputs.append(Bound("x", name, is_doubled(node)))
            lines.append(node.lineno - 1)
            text += MARK
    return _told(text, outputs, lines)


def _told(text: str, outputs: list[Bound], lines: list[int]) -> list[Finding]:
    writer = Writer(outputs, lambda _: None)
    try:
        writer.write(text)
    except TypeError as error:
        what, _, fix = str(error).partition(": ")
        if "dollar" in what:
            fix = "write {{ … }} alone, without quotes around it"
        return [Finding("DSL604", what, f"values are bound, never put into the text: {fix}", lines[writer.at])]
    return [
        Finding("DSL915", "a value stands where SQL takes only a name: it is quoted as one, its case is kept",
                _NAME_FIX if named.exact else "build the whole name in one {{ … | identifier }}", lines[named.output])
        for named in writer.named
    ]
