"""`%` and `format`: every field pays for the value it reads, and no width makes a text long."""

import re
from typing import Any

from jinja2.sandbox import SandboxedFormatter

from shared.dsl.templates.budget import Limit
from shared.dsl.templates.costs import FIELD, FILTER_COSTS, MADE_CHAR
from shared.dsl.templates.limits import MAX_TEXT, MAX_WIDTH, TOO_LONG, Context, check_text
from shared.dsl.templates.measure import measure
from shared.dsl.templates.result_view import unwrap
from shared.dsl.templates.values import item, member, require, text

_WIDTHS = re.compile(r"%(?:\([^)]*\))?[-#0 +]*(\*|\d*)(?:\.(\*|\d*))?")
_NUMBER = re.compile(r"\d+")
_WRITES = FILTER_COSTS["string"]


def pay_width(context: Context, width: str) -> None:
    if width == "*" or (width and (len(width) > 6 or int(width) > MAX_WIDTH)):
        raise Limit(f"a width in a format is given by `*` or too large (limit {MAX_WIDTH})")
    if width:
        context.spend(int(width) >> 1)  # the digits of a float are slow


def percent(context: Context, form: str, values: Any) -> str:
    """`form % values`, refused when a width or the values could make the text too long."""
    fields = form.count("%")
    context.spend(FIELD * (1 + fields))
    for width, precision in _WIDTHS.findall(form):
        pay_width(context, width)
        pay_width(context, precision)
    values = tuple(map(unwrap, values)) if isinstance(values, tuple) else unwrap(values)
    nodes, chars = measure(values, MAX_TEXT, TOO_LONG)
    check_text(fields * (nodes + chars + MAX_WIDTH))
    context.spend(fields * (nodes * _WRITES.node + chars * _WRITES.char >> 8))
    return str(form % values)


class _Access:
    getattr = staticmethod(member)
    getitem = staticmethod(item)


class _Formatter(SandboxedFormatter):
    """`str.format` whose fields are looked up as in a template and whose output is bounded."""

    def __init__(self, context: Context) -> None:
        self._env: Any = _Access()
        self._context = context
        self._length = 0

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        self._context.spend(FIELD + (len(field_name) << 1))
        return super().get_field(field_name, args, kwargs)

    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion is None:
            return value
        value = unwrap(require(value))
        self._context.pay(_WRITES, value)
        made = super().convert_field(value, conversion)
        check_text(len(made))
        return made

    def format_field(self, value: Any, format_spec: str) -> str:
        for width in _NUMBER.findall(format_spec):
            pay_width(self._context, width)
        value = unwrap(require(value))
        self._context.pay(_WRITES, value)
        self._context.spend(FIELD)
        made = format(value if isinstance(value, int | float) else text(value), format_spec)
        self._length += len(made)
        check_text(self._length)
        self._context.spend(len(made) >> MADE_CHAR)
        return made


def format_text(context: Context, value: str, *args: Any, **kwargs: Any) -> str:
    context.spend(len(value))  # its parser goes from character to character
    return _Formatter(context).vformat(value, args, kwargs)
