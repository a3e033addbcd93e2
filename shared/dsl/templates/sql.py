"""SQL texts: every `{{ }}` becomes a bound parameter or a quoted name, never text of the statement. A
text that is one `{{ expression }}` alone is the statement itself."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from jinja2 import nodes
from msgspec import Struct

from shared.dsl.model.texts import Text
from shared.dsl.templates.compiler import (
    Bound,
    Program,
    compiled,
    exact,
    explain,
    is_doubled,
    parse,
    reading,
    shown,
    spellings,
)
from shared.dsl.templates.limits import Context, check_text
from shared.dsl.templates.sql_tokens import MARK
from shared.dsl.templates.sql_writer import Writer
from shared.dsl.templates.values import final, pay_written

_SAID = "_said"


class Sql(Struct, frozen=True, omit_defaults=True, dict=True):
    """`texts` are the numbers of the parameters that stand in quotes: a number there is a text."""

    text: str
    params: list[Any]
    texts: tuple[int, ...] = ()

    @property
    def said(self) -> tuple[str, ...]:
        """How the author wrote each parameter: for messages alone, and so no part of the value."""
        found: tuple[str, ...] = self.__dict__.get(_SAID, ())
        return found


def render_sql(source: str, scope: Mapping[str, Any]) -> Sql:
    if "{{" not in source and "{%" not in source:
        return Sql(source, [])
    if type(source) is Text:
        with reading(source):
            return _rendered(str(source), scope, source.written)
    return _rendered(source, scope, "")


def _rendered(source: str, scope: Mapping[str, Any], written: str) -> Sql:
    program = compiled(source, sql=True)
    context = Context(scope, program.cost)
    try:
        if context.left < 0:
            context.over()
        pieces = program.root(context)
        if program.exact:
            return _command(context, pieces)
        sql, spelled = _assemble(context, *_pieces(context, pieces))
        if sql.params:
            sql.__dict__[_SAID] = _said(program, spelled, written)
        return sql
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


def _said(program: Program, spelled: list[tuple[int, ...]], written: str) -> tuple[str, ...]:
    """The parameters as their author wrote them, by the expressions that each is made of."""
    found = spellings(program.source)
    if written:
        own = spellings(written)
        found = own if len(own) == len(found) else found
    return tuple(" and ".join(shown(found[program.places[each]]) for each in dict.fromkeys(made)) for made in spelled)


def _assemble(context: Context, source: str, bound: list[Bound]) -> tuple[Sql, list[tuple[int, ...]]]:
    writer = Writer(bound, context.spend)
    writer.write(source)
    made = "".join(writer.made)
    check_text(len(made))
    if writer.numbered and writer.params:
        raise TypeError("a SQL text has either `{{ }}` or numbered parameters such as `$1`, not both")
    return Sql(made, writer.params, tuple(sorted(writer.texts))), writer.made_of


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
