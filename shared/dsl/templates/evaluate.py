"""Templates: evaluate values and conditions over a scope. Pure and bounded; every failure is a
TemplateError that names the expression."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from shared.dsl.model.texts import Text, is_strict
from shared.dsl.templates.budget import Limit, current
from shared.dsl.templates.compiler import Program, build, compiled, explain, fault, reading
from shared.dsl.templates.costs import MADE_CHAR
from shared.dsl.templates.limits import MAX_REPEATED, MAX_TEXT, REPEATED, TOO_LONG, Context
from shared.dsl.templates.measure import measure
from shared.dsl.templates.result_view import MISSING, View
from shared.dsl.templates.shell import Script, render_shell
from shared.dsl.templates.sql import Sql, render_sql
from shared.dsl.templates.values import Undefined, final, item, member, require, untouched, written
from shared.errors import OverLimit, TemplateError

__all__ = ["Script", "Sql", "check", "evaluate", "is_template", "render_shell", "render_sql", "truth"]
_LARGE = frozenset((dict, list, str))
_FALSE = frozenset(("", "false", "False"))
REPEATED_CHAR = 2  # right shift: what an element of rows with short texts costs in characters


def is_template(source: str) -> bool:
    return "{{" in source or "{%" in source


def evaluate(value: Any, scope: Mapping[str, Any]) -> Any:
    """The value with every template in it rendered. Keys of mappings are used as written."""
    made: list[Any] = []
    try:
        found = _evaluate(value, scope, made)
        if len(made) > 1:
            _check_repeated(made)
        return found
    except RecursionError:
        raise TemplateError("a value is nested too deeply to evaluate") from None


def _evaluate(value: Any, scope: Mapping[str, Any], made: list[Any]) -> Any:
    kind = type(value)
    if kind is str:
        if "{{" not in value and "{%" not in value:
            return value
        found = _render(compiled(value), scope)
        if type(found) in _LARGE:
            made.append(found)
        return found
    if kind is Text:
        with reading(value):
            return _evaluate(str(value), scope, made)
    if kind is dict:
        return {key: _evaluate(each, scope, made) for key, each in value.items()}
    if kind is list or kind is tuple:
        return [_evaluate(each, scope, made) for each in value]
    if isinstance(value, str | dict):  # a subclass, such as a loader's text with its line
        return _evaluate(str(value) if isinstance(value, str) else dict(value), scope, made)
    return value.raw if kind is View else value


def _check_repeated(made: list[Any]) -> None:
    """Templates that name one large value many times make something that is small only in memory."""
    times = Counter(map(id, made))
    if len(times) == len(made):
        return
    total = 0
    for value in {id(each): each for each in made}.values():
        if (again := times[id(value)] - 1) > 0:
            try:
                nodes, chars = measure(value, MAX_REPEATED, REPEATED)
            except Limit as error:
                raise OverLimit(str(error)) from None
            total += again * max(nodes, chars >> REPEATED_CHAR)
            if total > MAX_REPEATED:
                raise OverLimit(REPEATED)


def truth(value: Any, scope: Mapping[str, Any]) -> bool:
    """A condition. Of an exact expression the value decides, as in Jinja; of a text its content."""
    if type(value) is Text:
        with reading(value):
            return truth(str(value), scope)
    if not isinstance(value, str):
        return bool(value)
    if not is_template(value):
        return value.strip() not in _FALSE
    program = compiled(value)
    _, root, exact, cost, path, _, _ = program
    if not exact:
        return _render(program, scope).strip() not in _FALSE
    if path and (found := _followed(program, scope)) is not MISSING:
        return bool(found)
    context = Context(scope, cost)
    try:
        if context.left < 0:
            context.over()
        result = next(root(context))
        if result is True or result is False:
            return result
        return bool(require(result) if is_strict() else result)
    except Exception as error:
        raise explain(error, program) from None
    finally:
        if context.budget is not None:
            context.close()


def _followed(program: Program, scope: Mapping[str, Any]) -> Any:
    """The value at the end of a path, without running any code; MISSING leaves it to the code, which tells why."""
    budget = current()
    if budget is not None:
        if budget.most - budget.used < program.cost:
            return MISSING
        budget.used += program.cost
    value: Any = scope
    for is_attribute, key in program.path:
        if type(value) is dict:
            value = value.get(key, MISSING)
            if value is MISSING:
                return MISSING
        else:
            value = member(value, key) if is_attribute and isinstance(key, str) else item(value, key)
    return MISSING if isinstance(value, Undefined) else value


def _render(program: Program, scope: Mapping[str, Any]) -> Any:
    if program.path and (found := _followed(program, scope)) is not MISSING:
        return untouched(found)
    context = Context(scope, program.cost)
    pieces = program.root(context)
    try:
        if context.left < 0:
            context.over()
        if program.exact:
            return final(context, next(pieces))
        parts: list[str] = []
        length = 0
        for value in pieces:
            part = value if type(value) is str else written(context, value)
            length += len(part)
            if length > MAX_TEXT:
                raise Limit(TOO_LONG)
            parts.append(part)
        context.spend(len(parts) + (length >> MADE_CHAR))
        return "".join(parts)
    except Exception as error:
        raise explain(error, program, pieces) from None
    finally:
        if context.budget is not None:
            context.close()


def check(source: str) -> tuple[str, int] | None:
    """What is wrong with the text of a template, and on which of its lines, counted from 0."""
    if not is_template(source):
        return None
    try:
        build(source, sql=False)
    except Exception as error:
        message, line = fault(error)
        return message, max(0, line - 1)
    return None
