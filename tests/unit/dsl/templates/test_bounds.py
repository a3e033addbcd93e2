"""What an expression cannot do: reach into the interpreter, or eat memory and time without end."""

import tracemalloc
from typing import Any

import pytest

from shared.dsl.templates.evaluate import evaluate
from shared.errors import OverLimit, TemplateError

SCOPE: dict[str, Any] = {"x": {"a": 1}, "s": "abc", "l": [1, 2], "big": list(range(100_000))}
GROW = "{%% set n = namespace(v=%s) %%}{%% for i in range(100) %%}"


@pytest.mark.parametrize(
    "expression",
    [
        "''.__class__", "''['__class__']", "x.__class__.__mro__", "l.__len__()", "s.format.__globals__",
        "range.__globals__", "namespace.__init__.__globals__", "dict.__subclasses__()", "''.__class__.__mro__[1]",
        "'{0.__class__}'.format(x)", "'{0.a.__class__}'.format(x)", "'{x[__class__]}'.format(x=x)",
        "s.format_map(x)", "x | map(attribute='__class__') | list", "[x] | map(attribute='__class__') | list",
        "x | attr('__class__')", "s | attr('upper')", "self", "self._TemplateReference__context", "loop",
        "cycler", "lipsum()", "joiner()", "l.append(3)", "x.update({'b': 1})", "x.pop('a')", "s.encode()", "''.join",
        "namespace(a=1)", "namespace()._Namespace__attrs", "range", "l | random", "s | safe", "s | xmlattr",
        "x | map('#bind', 1) | list | nope", "environment.globals", "context.scope", "s.translate({97: 'b'})",
        "[''] | map('attr', '__class__') | list",
    ],
)  # fmt: skip
def test_nothing_leads_out_of_the_data(expression: str) -> None:
    with pytest.raises(TemplateError):
        evaluate("{{ " + expression + " }}", SCOPE)
    assert SCOPE["l"] == [1, 2]
    assert SCOPE["x"] == {"a": 1}


@pytest.mark.parametrize(
    "expression",
    [
        "'a' * 10**9", "10**9 * 'a'", "[0] * 10**9", "10 ** (10 ** 10)", "2 ** 5000", "(2 ** 4000) * (2 ** 4000)",
        "range(10**9)", "range(200000) | list", "'%999999999d' % 1", "'%*d' % (999999999, 1)",
        "'%.999999999f' % 1", "'{:999999999}'.format(1)", "'{:{}}'.format(1, 999999999)", "'a'.center(10**9)",
        "'a'.zfill(10**9)", "'a'.ljust(10**9)", "'a' | center(10**9)", "'a' | indent(10**9)", "[1] | batch(10**9, 0)",
        "[1] | slice(10**9)", "('a' * 1000000).replace('', 'bbbbbbbbbb')", "('a' * 1000000) | replace('a', 'bb')",
        "('a' * 1000).join(big)", "big | join('aaaaaaaaaaaa')", "1.5 | round(10**9, 'ceil')",
        "'a' * 900000 ~ 'a' * 900000",
        "('a' * 1000000) + ('a' * 1000000)", "big + big", "('%s' * 2000) % ('a' * 1000,)", "('a' * 200000) | list",
        "[big] * 1000 | string", "([big] * 100000) | sort", "([big] * 100000) == ([big] * 100000)",
        "[1] in ([big] * 100000)", "([big] * 1000) | tojson", "('0x' ~ 'f' * 100000) | int(0, 16)",
        "([[1]] * 50000) | sum(start=[])", "(2 ** 4000 * 1.5) | string", "('{0}' * 20000).format('a' * 1000)",
        "'{0!r}'.format([big] * 1000)", "[[[[1]]]] | tojson(indent=10**6)", "([2 ** 4000] * 100000) | string",
        "('a,' * 200000).split(',')",
    ],
)  # fmt: skip
def test_a_bomb_is_refused_before_it_takes_memory(expression: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(TemplateError):
            evaluate("{{ " + expression + " }}", SCOPE)
        assert tracemalloc.get_traced_memory()[1] < 48 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("template", "limit"),
    [
        ("{% for i in range(100) %}{% for j in range(1001) %}{% endfor %}{% endfor %}", "loop steps (limit 100000)"),
        ("{% for i in range(50000) %}" + "{% set a = 1 %}" * 200 + "{% endfor %}", "work (limit 1000000"),
        ("{% for i in range(1000) %}{{ 'a' * 10000 }}{% endfor %}", "limit 1048576 characters"),
        ("{% set a %}{% for i in range(1000) %}{{ 'a' * 10000 }}{% endfor %}{% endset %}", "limit 1048576 characters"),
        ("{% for i in range(90000) %}{% if big == big2 %}{% endif %}{% endfor %}", "limit"),
        ("{% for i in range(90000) %}{% if -1 in big %}{% endif %}{% endfor %}", "work (limit"),
        ("{% for i in range(9000) %}{% set a = big[:] %}{% endfor %}", "work (limit"),
        ("{% for i in range(9000) %}{% set a = big | sort %}{% endfor %}", "work (limit"),
        (f"{GROW % '[]'}{{% set n.v = [n.v, n.v] %}}{{% endfor %}}{{{{ n.v }}}}", "limit"),
        (f"{GROW % repr('aa')}{{% set n.v = n.v + n.v %}}{{% endfor %}}", "limit 1048576"),
        (f"{GROW % 3}{{% set n.v = n.v * n.v %}}{{% endfor %}}", "limit 4096 bits"),
        ("{{ " + "[" * 150 + "]" * 150 + " }}" + "{{ " + "1+" * 700 + "1 }}", "nested too deeply"),
    ],
)
def test_work_of_a_render_is_bounded(template: str, limit: str) -> None:
    big = list(range(100_000))
    with pytest.raises(TemplateError) as caught:
        evaluate(template, {"big": big, "big2": list(big)})
    assert limit in str(caught.value)


def test_a_deep_value_made_in_a_loop_is_an_error_and_not_a_crash() -> None:
    deep = "{% set n = namespace(l=[]) %}{% for i in range(30000) %}{% set n.l = NEST %}{% endfor %}{{ USE }}"
    for nest, use in (("[n.l]", "n.l"), ("(n.l,)", "{n.l: 1}"), ("(n.l,)", "x[n.l]"), ("(n.l,)", "[n.l] | unique"),
                      ("[n.l]", "n.l | tojson"), ("[n.l]", "n.l == [n.l]")):  # fmt: skip
        with pytest.raises(TemplateError):
            evaluate(deep.replace("NEST", nest).replace("USE", use), {"x": {"a": 1}})
    assert evaluate(deep.replace("NEST", "(n.l,)").replace("USE", "n.l in x"), {"x": {"a": 1}}) == "False"


def test_ordinary_loops_stay_within_the_bounds() -> None:
    rows = [{"id": n, "name": f"row {n}"} for n in range(10_000)]
    text = "{% for row in rows %}{{ row.id }}:{{ row.name | upper }}\n{% endfor %}"
    assert evaluate(text, {"rows": rows}).count("\n") == 10_000
    grow = "{% set n = namespace(l=[]) %}{% for r in rows %}{% set n.l = n.l + [r.id] %}{% endfor %}{{ n.l | length }}"
    assert evaluate(grow, {"rows": rows[:5000]}) == "5000"


def test_a_large_value_passes_through_untouched() -> None:
    rows = [{"id": n} for n in range(200_000)]
    assert evaluate("{{ rows }}", {"rows": rows}) is rows


REPEATED = ["x" * 100_000, list(range(10_000)), {"a": {str(n): n for n in range(5_000)}}, [{}] * 1_000]


@pytest.mark.parametrize("value", REPEATED)
def test_what_templates_repeat_is_bounded(value: object) -> None:
    """One large value under many names is small only in memory."""
    assert evaluate(["{{ v }}"] * 3, {"v": value}) == [value] * 3
    assert evaluate(["{{ v }}"] * 5_000, {"v": 1}) == [1] * 5_000
    with pytest.raises(OverLimit, match="repeat is too large"):
        evaluate({"all": ["{{ v }}"] * 5_000}, {"v": value})
