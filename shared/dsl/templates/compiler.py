"""From template text to a program: parse, refuse what the language leaves out, compile once, cache."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator
from jinja2.exceptions import TemplateSyntaxError
from jinja2.nodes import EvalContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from shared.dsl.model.texts import Text, first_edition
from shared.dsl.templates import operators as ops
from shared.dsl.templates.budget import Limit
from shared.dsl.templates.codegen import Generator
from shared.dsl.templates.costs import NODE, RENDER
from shared.dsl.templates.filters import FILTERS
from shared.dsl.templates.limits import MAX_LOOPS, MAX_NESTING, MAX_SOURCE, MAX_TOKENS, Context, tokens
from shared.dsl.templates.methods import FUNCTIONS, check_key
from shared.dsl.templates.names import USES, free_names
from shared.dsl.templates.tests import TESTS
from shared.dsl.templates.values import IS_UNDEFINED, Undefined, absent, item, member, named, picked
from shared.errors import OverLimit, TemplateError

CACHE = 4096
SHOWN = 200  # characters of an expression in a message
FILE = "<template>"
CALLS = (nodes.Call, nodes.Filter, nodes.Test)
_LEFT_OUT: dict[type[nodes.Node], str] = {
    nodes.Macro: "macro",
    nodes.CallBlock: "call",
    nodes.FilterBlock: "filter",
    nodes.Block: "block",
    nodes.Extends: "extends",
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "from",
    nodes.ScopedEvalContextModifier: "autoescape",
}


class Program(NamedTuple):
    """`root` yields the pieces of one render; of an exact expression the one piece is its value. `cost` is paid
    for every evaluation; `path` is not empty where the
    expression only names what is there: the name, then keys, each with whether it is an attribute. `places` of a SQL
    text says for each of its expressions at which of its outputs it stands first."""

    source: str
    root: Callable[[Context], Iterator[Any]]
    exact: bool
    cost: int
    path: tuple[tuple[bool, str | int], ...]
    lines: tuple[tuple[int, int], ...]  # line of the compiled code → line of the template
    places: tuple[int, ...] = ()


class _Environment(ImmutableSandboxedEnvironment):
    code_generator_class: type[CodeGenerator] = Generator
    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))  # so that none is done while compiling

    def getattr(self, obj: Any, attribute: str) -> Any:
        return member(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        return item(obj, argument)


class Bound(NamedTuple):
    """An output of a SQL text: a value to bind, or an identifier that is text already. `doubled`: its
    expression doubles single quotes, which a literal wants and a bound value does not. `expression` is the same for
    the same expression in one text."""

    value: Any
    is_name: bool
    doubled: bool
    expression: int = -1

    def undoubled(self) -> "Bound":
        if not self.doubled or not isinstance(self.value, str):
            return self
        return self._replace(value=self.value.replace("''", "'"))


def _bound(value: Any, how: int) -> Bound:
    expression, kind = divmod(how, len(_KINDS))
    return Bound(value, kind == _NAME, kind == _DOUBLED, expression)


_KINDS = _VALUE, _NAME, _DOUBLED = 0, 1, 2


def _environment() -> _Environment:
    environment = _Environment(
        undefined=Undefined, optimized=False, autoescape=False, keep_trailing_newline=True, cache_size=0
    )
    environment.filters = dict(FILTERS)
    environment.tests = dict(TESTS)
    environment.globals = {}
    return environment


ENVIRONMENT = _environment()
Context.environment = ENVIRONMENT
Context.eval_ctx = EvalContext(ENVIRONMENT)
Context.functions = FUNCTIONS
_NAMES = {
    "environment": ENVIRONMENT, "named": named, "picked": picked, "sliced": ops.sliced, "binop": ops.binop,
    "call": ops.call, "invoke": ops.invoke,
    "absent": absent, "concatenated": ops.concatenated, "joined": ops.joined,
    "within": ops.within, "weighed": ops.weighed, "compared": ops.compared, "slice": slice,
    "check_key": check_key,
    "steps": ops.steps, "bound": _bound,
}  # fmt: skip


def parse(source: str) -> nodes.Template:
    """The tree of a template of the language; TemplateSyntaxError or RecursionError."""
    return surveyed(source)[0]


def surveyed(source: str) -> tuple[nodes.Template, list[nodes.Node]]:
    """The tree of a template, and all its nodes, each before what is below it."""
    if len(source) > MAX_SOURCE:
        raise TemplateSyntaxError(f"the template is too long (limit {MAX_SOURCE} characters)", 1)
    if len(source) > MAX_TOKENS and tokens(source) > MAX_TOKENS:
        raise TemplateSyntaxError(f"the template is too long (limit {MAX_TOKENS} words and signs in its code)", 1)
    tree = ENVIRONMENT.parse(source)
    found = _walk(tree)
    for node in found:
        kind = type(node)
        if kind in _LEFT_OUT:
            raise TemplateSyntaxError(f"the tag `{_LEFT_OUT[kind]}` is not part of the language", node.lineno)
        if kind is nodes.For and node.recursive:  # type: ignore[attr-defined]
            raise TemplateSyntaxError("recursive loops are not part of the language", node.lineno)
        if isinstance(node, USES):
            known, what = (FILTERS, "filter") if kind is nodes.Filter else (TESTS, "test")
            if node.name not in known:
                raise TemplateSyntaxError(f"there is no {what} `{node.name}`", node.lineno)
        if isinstance(node, CALLS) and len(node.kwargs) > 1:
            _check_once(node)
    return tree, found


def _walk(tree: nodes.Template) -> list[nodes.Node]:
    """Without recursion, so that a chain of any length is measured before anything else is done with it."""
    found: list[nodes.Node] = []
    stack: list[tuple[nodes.Node, int, int]] = [(tree, 0, 0)]
    while stack:
        node, depth, loops = stack.pop()
        if depth > MAX_NESTING:
            raise TemplateSyntaxError(f"nested too deeply (limit {MAX_NESTING} levels)", node.lineno)
        found.append(node)
        inside = loops + 1 if type(node) is nodes.For else loops
        if inside > MAX_LOOPS:
            raise TemplateSyntaxError(f"loops are nested too deeply (limit {MAX_LOOPS} levels)", node.lineno)
        below: list[tuple[nodes.Node, int, int]] = []
        for field in node.fields:
            value = getattr(node, field, None)
            if type(value) is list:
                around = loops if field == "else_" else inside  # `else` of a loop comes after it
                below += [(each, depth + 1, around) for each in value if isinstance(each, nodes.Node)]
            elif isinstance(value, nodes.Node):
                below.append((value, depth + 1, inside))
        if below:
            stack += reversed(below)
    return found


def _check_once(node: nodes.Call | nodes.Filter | nodes.Test) -> None:
    """No argument is given twice."""
    names: set[str] = set()
    for each in node.kwargs:
        if isinstance(each, nodes.Keyword):
            if each.key in names:
                raise TemplateSyntaxError(f"the argument `{each.key}` is given twice", each.lineno)
            names.add(each.key)


def exact(tree: nodes.Template) -> nodes.Expr | None:
    """The only expression of a template with nothing but whitespace around it."""
    if not all(isinstance(part, nodes.Output) for part in tree.body):
        return None
    outputs = [node for part in tree.body if isinstance(part, nodes.Output) for node in part.nodes]
    texts = [node for node in outputs if isinstance(node, nodes.TemplateData)]
    if len(outputs) - len(texts) != 1 or any(text.data.strip() for text in texts):
        return None
    return next(node for node in outputs if not isinstance(node, nodes.TemplateData))


def _path(node: nodes.Node) -> tuple[tuple[bool, str | int], ...]:
    """Of `a.b[0]['c']`, which makes nothing on the way to the value."""
    keys: list[tuple[bool, str | int]] = []
    while isinstance(node, nodes.Getattr | nodes.Getitem):
        if isinstance(node, nodes.Getattr):
            keys.append((True, node.attr))
        elif isinstance(node.arg, nodes.Const) and type(node.arg.value) in (str, int):
            keys.append((False, node.arg.value))
        else:
            return ()
        node = node.node
    return ((True, node.name), *reversed(keys)) if isinstance(node, nodes.Name) else ()


def _meter(node: nodes.Node) -> int:
    """Every loop pays for its steps, by the size of its body. Returns how many nodes are below."""
    size = sum(1 + _meter(child) for child in node.iter_child_nodes())
    if isinstance(node, nodes.For):
        node.iter = nodes.Getitem(node.iter, nodes.Const(NODE * size), "#steps", lineno=node.lineno)
    return size


def _bind(tree: nodes.Template) -> tuple[int, ...]:
    """Every output becomes a bound value, but for those of `set` blocks, which only make a value. Returns the places of
    the expressions."""
    known: dict[str, int] = {}
    places: list[int] = []
    count = 0

    def bind(node: nodes.Node, within: bool) -> None:
        nonlocal count
        within = within or isinstance(node, nodes.AssignBlock)
        if isinstance(node, nodes.Output):
            for index, each in enumerate(node.nodes):
                if isinstance(each, nodes.TemplateData):
                    continue
                if not within:
                    node.nodes[index] = _bound_node(each, known)
                    places.extend([count] * (len(known) - len(places)))
                count += 1
        for child in node.iter_child_nodes():
            bind(child, within)

    bind(tree, False)
    return tuple(places)


@lru_cache(maxsize=CACHE)
def spellings(source: str) -> tuple[str, ...]:
    """Each `{{ … }}` of a text as it is written, in order; none of one that is no template."""
    found: list[str] = []
    inside = False
    try:
        lexed = list(ENVIRONMENT.lex(source))
    except TemplateSyntaxError:
        return ()
    for _, kind, text in lexed:
        if kind == "variable_begin":
            inside = True
            found.append("")
        if inside:
            found[-1] += text
            inside = kind != "variable_end"
    return tuple(found)


def is_doubled(node: nodes.Expr) -> bool:
    """Whether the last thing done to a value is `replace("'", "''")`."""
    return (isinstance(node, nodes.Filter) and node.name == "replace"
            and [getattr(each, "value", None) for each in node.args] == ["'", "''"])


def _bound_node(node: nodes.Expr, known: dict[str, int]) -> nodes.Expr:
    how = _NAME if isinstance(node, nodes.Filter) and node.name == "identifier" else _VALUE
    if is_doubled(node):
        how = _DOUBLED
    how += known.setdefault(repr(node), len(known)) * len(_KINDS)
    return nodes.Getitem(node, nodes.Const(how), "#bind", lineno=node.lineno)


def build(source: str, sql: bool) -> Program:
    tree, found = surveyed(source)
    if any(isinstance(node, nodes.AssignBlock | nodes.For) for node in found):
        free_names(tree)  # says what is wrong with such a block; the generator does not look again
    only = exact(tree)
    if only is not None:
        tree.body = [nodes.Output([only], lineno=only.lineno)]
    places = _bind(tree) if sql else ()
    _meter(tree)
    tree.set_environment(ENVIRONMENT)
    names: dict[str, Any] = dict(_NAMES)
    exec(ENVIRONMENT.compile(tree, filename=FILE), names)
    pairs = (pair.split("=") for pair in names["debug_info"].split("&") if pair)
    lines = tuple((int(code), int(line)) for line, code in pairs)
    path = _path(only) if only is not None and not sql else ()
    return Program(source, names["root"], only is not None, RENDER + NODE * len(found), path, lines, places)


@lru_cache(maxsize=CACHE)
def compiled(source: str, sql: bool = False) -> Program:
    try:
        return build(source, sql)
    except Exception as error:
        what = fault(error)[0]
        raise TemplateError(f"{what}, in `{shown(source)}`", what) from None


def fault(error: Exception) -> tuple[str, int]:
    """What went wrong, and the line of the template when the error tells it. Messages of foreign errors
    are not repeated where they can hold a value, which may be a secret."""
    if isinstance(error, TemplateSyntaxError):
        return error.message or "syntax error", error.lineno
    if isinstance(error, RecursionError | MemoryError | SyntaxError):
        return "nested too deeply", 1
    own = (jinja2.TemplateError, TypeError, ZeroDivisionError, Limit)
    if isinstance(error, own) and str(error):
        return str(error), 1
    return f"a value does not fit the operation ({type(error).__name__})", 1


@contextmanager
def reading(text: Text) -> Iterator[None]:
    """By the rules of its edition; an error of a text that lowering made names what its author wrote."""
    try:
        with first_edition(text.strict):
            yield
    except TemplateError as error:
        if not text.written or text.written == text:
            raise
        what = "the value is undefined" if error.what.endswith(IS_UNDEFINED) else error.what
        raise type(error)(f"{what}, in `{shown(text.written)}`", what) from None


def shown(source: str) -> str:
    source = source.strip()
    return source if len(source) <= SHOWN else source[: SHOWN - 1] + "…"


def explain(error: Exception, program: Program, pieces: Any = None) -> TemplateError:
    """The error of a render, with the line it comes from: where the code failed, or where it was when
    one of its pieces turned out to be no value."""
    frame = getattr(pieces, "gi_frame", None)
    at = frame.f_lineno if frame is not None else 0
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILE:
            at = trace.tb_lineno
        trace = trace.tb_next
    line = max((line for code, line in program.lines if code <= at), default=0)
    texts = program.source.split("\n")
    one = texts[line - 1] if 0 < line <= len(texts) else program.source
    kind = OverLimit if isinstance(error, Limit) else TemplateError
    what = fault(error)[0]
    return kind(f"{what}, in `{shown(one)}`", what)
