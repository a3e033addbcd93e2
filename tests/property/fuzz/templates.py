"""Whatever a template does, it comes to plain data or to a TemplateError, within its units and the time they are worth,
and leaves the values it reads as they are. What takes longest for its units belongs into
`tests/security/worst_templates.py`."""

import random
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import msgspec

from shared.dsl.templates.analysis import facts
from shared.dsl.templates.budget import MAX_WORK, Budget
from shared.dsl.templates.evaluate import check, evaluate, is_template, render_shell, render_sql, truth
from shared.dsl.templates.needs import names_used
from shared.dsl.templates.result_view import view
from shared.errors import OverLimit, TemplateError
from shared.events.outcome import Result
from tests.property.fuzz.byte_changes import VALUES
from tests.property.fuzz.runner import Fuzzer, Seen
from tests.property.fuzz.template_making import (
    SCOPE,
    each_expression,
    in_loop,
    nested_blocks,
    random_expression,
    random_template,
)

MOST_S = 1.0  # of CPU time; a budget is worth 0.05 s on a machine of its own
MOST_NS = 2000.0  # for a unit, which is worth 50
MADE = 40  # units that reading a character is worth, and making its code: one that is refused is read five times
PIECES = (
    "{{", "}}", "{%", "%}", "{#", "#}", "-%}", "{%-", "{% raw %}", "{% endraw %}", "{% if x %}", "{% endif %}",
    "{% for i in x %}", "{% endfor %}", "{% set x = 1 %}", "{% include 'x' %}", "{% macro m() %}", "x", "y", "v",
    "gone", ".a", "['a']", "[0]", "|", "(", ")", "[", "]", "{", "}", "'", '"', " is ", " in ", " if ", " else ",
    "not ", "~", "**", "//", "%", ":", ",", "1e999", "0x1F", "9" * 400, "\\", "\n", "\x00", "é", "😀", "__class__",
    "_x", "loop.index", "self", "super()", "caller()", "namespace()", "range(9)", "|map('#steps', -1)", "$1", "--",
    "/*", "';", "{{ x }}", "{{ y | tojson }}",
)  # fmt: skip
Run = Callable[[str, dict[str, Any]], Any]
RUNS: tuple[Run, ...] = (evaluate, truth, render_sql, render_shell)


class Case(NamedTuple):
    """With a scope of its own it goes every way a template can; without one it is over the large values."""

    template: str
    scope: dict[str, Any] | None = None


@cache
def singles() -> tuple[str, ...]:
    return tuple(each_expression())


def make(chance: random.Random) -> Case:
    match chance.randrange(9):
        case 0 | 1:
            single = chance.choice(singles())
            return Case(in_loop(single) if chance.random() < 0.5 else "{{ " + single + " }}")
        case 2 | 3:
            return Case(random_template(chance))
        case 4 | 5:
            return Case(_broken(chance), _scope(chance))
        case 6:
            return Case(nested_blocks(chance), _scope(chance))
    expression = random_expression(chance, chance.randint(1, 3))
    for name in SCOPE:
        expression = expression.replace(name, chance.choice(("x", "y", "v", "gone"))) if len(name) > 1 else expression
    return Case("{{ " + expression + " }}", _scope(chance))


def _broken(chance: random.Random) -> str:
    """A text in which parts of templates stand, and which may be one."""
    parts = [chance.choice(PIECES) for _ in range(chance.randint(1, 12))]
    if chance.random() < 0.5:
        parts = ["{{ ", *parts, " }}"]
    return "".join(parts)


def _scope(chance: random.Random) -> dict[str, Any]:
    value = [chance.choice(VALUES) for _ in range(chance.randrange(4))]
    y = {"a": chance.choice(VALUES), "items": value, "0": 1, "_x": 2}
    shape = chance.choice(("value", "http", "sql", "loop"))
    return {"x": chance.choice((value, *VALUES)), "y": y, "v": view(Result(chance.choice((y, value)), shape)),
            **{name: chance.choice(VALUES) for name in "slutnfmzqi"}}


def promise(case: Case) -> Seen:
    if case.scope is None:
        return _evaluated(evaluate, case.template, SCOPE)[0]
    wrong = check(case.template)
    assert wrong is None or 0 <= wrong[1] <= case.template.count("\n")
    assert facts(case.template).wrong == wrong or not is_template(case.template), "the compiler finds what check does"
    names_used(case.template)
    before = msgspec.json.encode(_plain(case.scope))
    found = []
    for run in RUNS:
        seen, result = _evaluated(run, case.template, case.scope)
        msgspec.to_builtins(result)
        found.append(seen)
    assert msgspec.json.encode(_plain(case.scope)) == before, "values of the scope are others now"
    assert wrong is None or found[0].kinds[0] == "template", "what check refuses cannot be evaluated"
    units = sum(each.units for each in found) + MADE * len(case.template)
    return Seen([kind for each in found for kind in each.kinds], units)


def _evaluated(run: Run, template: str, scope: dict[str, Any]) -> tuple[Seen, Any]:
    kind, result = "a value", None
    with Budget(None) as spent:
        try:
            result = run(template, scope)
        except OverLimit:
            kind = "limit"
        except TemplateError:
            kind = "template"
    assert 0 <= spent.used <= MAX_WORK + 1
    return Seen((kind,), spent.used), result


def _plain(scope: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in scope.items() if name != "v"}


FUZZER = Fuzzer("templates", make, promise, frozenset(("a value", "template", "limit")), MOST_S, MOST_NS,
                show=lambda case: case.template if case.scope is None else f"{case.template!r} over {case.scope}")
