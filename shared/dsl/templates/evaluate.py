"""Templates: evaluate values and conditions over a scope. Pure and bounded; every failure is a
TemplateError that names the expression."""

from collections.abc import Mapping
from typing import Any

from shared.dsl.template_compile import Program, build, compiled, explain, fault
from shared.dsl.template_data import plain, require, text
from shared.dsl.template_limits import Context, check_text
from shared.dsl.template_shell import Script, render_shell
from shared.dsl.template_sql import Sql, render_sql
from shared.dsl.view import View
from shared.errors import TemplateError

__all__ = ["Script", "Sql", "check", "evaluate", "is_template", "render_shell", "render_sql", "truth"]
_FALSE = frozenset(("", "false", "False"))


def is_template(source: str) -> bool:
    return "{{" in source or "{%" in source


def evaluate(value: Any, scope: Mapping[str, Any]) -> Any:
    """The value with every template in it rendered. Keys of mappings are taken as written."""
    try:
        return _evaluate(value, scope)
    except RecursionError:
        raise TemplateError("a value is nested too deeply to evaluate") from None


def _evaluate(value: Any, scope: Mapping[str, Any]) -> Any:
    kind = type(value)
    if kind is str:
        return _render(compiled(value), scope) if "{{" in value or "{%" in value else value
    if kind is dict:
        return {key: _evaluate(each, scope) for key, each in value.items()}
    if kind is list or kind is tuple:
        return [_evaluate(each, scope) for each in value]
    if isinstance(value, str | dict):  # a subclass, such as a loader's text with its line
        return _evaluate(str(value) if isinstance(value, str) else dict(value), scope)
    return value.raw if kind is View else value


def truth(value: Any, scope: Mapping[str, Any]) -> bool:
    """A condition. Of an exact expression the value decides, as in Jinja; of a text its content."""
    if not isinstance(value, str):
        return bool(value)
    if not is_template(value):
        return value.strip() not in _FALSE
    program = compiled(value)
    if not program.exact:
        return _render(program, scope).strip() not in _FALSE
    try:
        result = next(program.root(Context(scope)))
        return result if result is True or result is False else bool(require(result))
    except Exception as error:
        raise explain(error, program) from None


def _render(program: Program, scope: Mapping[str, Any]) -> Any:
    pieces = program.root(Context(scope))
    try:
        if program.exact:
            return plain(next(pieces))
        parts: list[str] = []
        length = 0
        for value in pieces:
            part = text(value)
            length += len(part)
            check_text(length)
            parts.append(part)
        return "".join(parts)
    except Exception as error:
        raise explain(error, program, pieces) from None


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
