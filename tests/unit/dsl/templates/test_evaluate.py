"""Values, types and undefined names (LANGUAGE: template result types, undefined names)."""

from typing import Any

import pytest

from shared.dsl.templates.evaluate import check, evaluate, truth
from shared.errors import TemplateError

SCOPE: dict[str, Any] = {
    "event": {"name": "step.done"},
    "ctx": {"n": 2, "items": [1, 2, 3], "get": "key", "name": "ann", "none": None, "_id": 7},
    "iter": {"page": "3"},
    "rows": [{"id": 1, "ok": True}, {"id": 2, "ok": False}],
}


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("plain", "plain"),
        ("{ {x} }", "{ {x} }"),
        ("{{ ctx.n }}", 2),
        ("  {{ ctx.n }}\n", 2),
        ("{{ '1' }}", "1"),
        ("{{ 5 }}", 5),
        ("{{ [1, 'a', none] }}", [1, "a", None]),
        ("{{ (1, 2) }}", [1, 2]),
        ("{{ {'a': ctx.n} }}", {"a": 2}),
        ("{{ range(3) }}", [0, 1, 2]),
        ("n={{ ctx.n }}", "n=2"),
        ("{{ ctx.n }}{{ ctx.n }}", "22"),
        ("{{ (iter.page | int) + 1 }}", 4),
        ("{{ ctx.items }}", [1, 2, 3]),
        ("{{ ctx.get }}", "key"),
        ("{{ ctx.get('n') }}", 2),
        ("{{ ctx._id }}{{ ctx['_id'] }}", "77"),
        ("{{ ctx['items'][1:] }}", [2, 3]),
        ("{{ ctx.items[-1] }}", 3),
        ("{{ ctx.name.upper() }}", "ANN"),
        ("{{ ctx.name ~ '-' ~ ctx.n }}", "ann-2"),
        ("{{ rows | selectattr('ok') | map(attribute='id') }}", [1]),
        ("{{ rows | map(attribute='id') | sum }}", 3),
        ("{{ rows | groupby('ok') | map('first') }}", [False, True]),
        ("{% for r in rows %}{{ loop.index }}:{{ r.id }}{{ '' if loop.last else ',' }}{% endfor %}", "1:1,2:2"),
        ("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "a1"),
        ("{% for x in rows %}{{ loop.cycle('a', 'b') }}{% endfor %}", "ab"),
        ("{% set ns = namespace(t=0) %}{% for i in range(4) %}{% set ns.t = ns.t + i %}{% endfor %}{{ ns.t }}", "6"),
        ("{% set block %}x{{ ctx.n }}{% endset %}{{ block }}", "x2"),
        ("{% with a = 1 %}{{ a }}{% endwith %}", "1"),
        ("{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
        ("{{ '%s-%03d' % ('a', 7) }}", "a-007"),
        ("{{ '{}-{c.n:>3}'.format(1, c=ctx) }}", "1-  2"),
        ("{{ 1 < ctx.n < 3 }}", True),
        ("{{ 3 in ctx.items and 9 not in ctx.items }}", True),
        ("{{ 'n' in ctx }}", True),
        ("{{ 2 ** 10 - 7 // 2 % 2 }}", 1023),
        ("a\r\nb{{ 1 }}\n", "a\nb1\n"),
    ],
)
def test_a_template_gives_its_value(template: str, value: Any) -> None:
    result = evaluate(template, SCOPE)
    assert result == value
    assert type(result) is type(value)


def test_trees_are_rendered_and_scalars_are_kept() -> None:
    tree = {"a": ["{{ ctx.n }}", 1, None, True], "{{ key }}": {"b": "x{{ ctx.n }}"}}
    assert evaluate(tree, SCOPE) == {"a": [2, 1, None, True], "{{ key }}": {"b": "x2"}}


def test_a_text_that_looks_like_data_or_like_a_template_is_never_parsed_again() -> None:
    scope = {"x": "[1, 2]", "y": "{{ x }}"}
    assert evaluate("{{ x }}", scope) == "[1, 2]"
    assert evaluate({"a": "{{ y }}"}, scope) == {"a": "{{ x }}"}


def test_a_loaders_text_type_is_rendered() -> None:
    class Located(str):
        pass

    assert evaluate(Located("{{ ctx.n }}"), SCOPE) == 2
    assert truth(Located("{{ ctx.n == 2 }}"), SCOPE) is True


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{ x.a.b | default(4) }}", 4),
        ("{{ ctx.none.a.b | default(4) }}", 4),
        ("{{ ctx.keys | default([]) }}", []),
        ("{{ ctx.items[9].a | default(4) }}", 4),
        ("{{ x['a'][0]['b'] | d(4) }}", 4),
        ("{{ ctx.none | default(4) }}", None),
        ("{{ ctx.none | default(4, true) }}", 4),
        ("{{ x is defined }}", False),
        ("{{ x.a.b is undefined }}", True),
        ("{{ ctx.keys is defined }}", False),
        ("{{ ctx.store_ok == true }}", False),
        ("{{ ctx.store_ok != true }}", True),
        ("{{ ctx.a == ctx.b }}", False),
        ("{{ x in [1, 2] }}", False),
        ("{{ x not in 'text' }}", True),
        ("{{ 1 in x }}", False),
        ("{{ rows | selectattr('missing', 'equalto', 1) }}", []),
    ],
)
def test_an_undefined_value_is_fine_where_it_is_asked_for(template: str, value: Any) -> None:
    assert evaluate(template, SCOPE) == value


@pytest.mark.parametrize(
    "expression",
    ["ctx.gone", "ctx.gone + 1", "-ctx.gone", "ctx.gone < 1", "not ctx.gone", "ctx.gone and 1", "ctx.gone | int",
     "ctx.gone ~ ''", "[ctx.gone]", "{'a': ctx.gone}", "ctx.gone()", "1 if ctx.gone else 2", "ctx.gone | length",
     "ctx.gone is string", "'a' | replace(ctx.gone, 'b')", "{ctx.gone: 1}", "ctx[gone]", "'%s' % ctx.gone",
     "'{}'.format(ctx.gone)", "ctx.gone[1:]"],
)  # fmt: skip
def test_any_other_use_of_an_undefined_value_is_an_error_that_names_it(expression: str) -> None:
    with pytest.raises(TemplateError, match=r"gone' is undefined, in `") as caught:
        evaluate("{{ " + expression + " }}", SCOPE)
    assert expression in str(caught.value)


def test_output_iteration_and_conditions_of_undefined_values_are_errors() -> None:
    for template in ("a {{ gone }}", "{% for x in gone %}{% endfor %}", "{% if gone %}{% endif %}", "{{ 1 if false }}"):
        with pytest.raises(TemplateError):
            evaluate(template, SCOPE)
    with pytest.raises(TemplateError, match="'flag' is undefined"):
        truth("{{ ctx.flag }}", SCOPE)


@pytest.mark.parametrize(
    ("when", "value"),
    [
        (True, True), (False, False), (None, False), (1, True), ("true", True), ("false", False), ("", False),
        ("{{ event.name == 'step.done' and ctx.n < 3 }}", True),
        ("{{ event.name == 'step.done' and ctx.store_ok != true }}", True),
        ("{{ ctx.items }}", True), ("{{ [] }}", False), ("{{ ctx.none }}", False), ("{{ 'false' }}", True),
        ("{% if ctx.n == 2 %}true{% else %}false{% endif %}", True),
        ("\n{% if ctx.n == 3 %}true{% else %}\n False {% endif %}", False),
        ("{% if ctx.n == 3 %}true{% endif %}", False),
    ],
)  # fmt: skip
def test_truth_of_a_condition(when: Any, value: bool) -> None:
    assert truth(when, SCOPE) is value


def test_every_failure_is_a_template_error_that_shows_the_expression_but_no_value() -> None:
    scope = {"secret": "hunter2", "n": 0, "d": {}, "l": []}
    for expression in ("1 / n", "secret + 1", "secret | fromjson", "d < l", "secret | b64decode", "'%d' % secret",
                       "l | first", "secret.index('z')", "[1] | map('nope')", "n()",
                       "'{:d}'.format(secret)"):  # fmt: skip
        with pytest.raises(TemplateError) as caught:
            evaluate("{{ " + expression + " }}", scope)
        assert expression in str(caught.value)
        assert "hunter2" not in str(caught.value)


def test_an_error_in_a_long_template_shows_its_line_and_at_most_200_characters() -> None:
    with pytest.raises(TemplateError, match=r"'gone' is undefined, in `second \{\{ gone \}\}`"):
        evaluate("first\nsecond {{ gone }}\nthird", SCOPE)
    with pytest.raises(TemplateError) as caught:
        evaluate("{{ gone }}" + "x" * 1000, SCOPE)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("template", "message", "line"),
    [
        ("{{ a", "unexpected end", 0),
        ("ok\n{{ a }}\n{{ a b }}", "expected token", 2),
        ("\n{% for x in y %}", "end of", 1),
        ("\n{% if a %}{{ a | nope }}{% endif %}", "no filter `nope`", 1),
        ("{{ a is nope }}", "no test `nope`", 0),
        ("{{ a | random }}", "no filter `random`", 0),
        ("{% macro f() %}{% endmacro %}", "`macro` is not part", 0),
        ("{% include 'x' %}", "`include` is not part", 0),
        ("{% for x in y recursive %}{% endfor %}", "recursive", 0),
        ("{{ " + "(" * 900 + "1" + ")" * 900 + " }}", "nested too deeply", 0),
        ("{{ 1 }}" + "x" * 65536, "limit 65536", 0),
    ],
)
def test_check_tells_what_is_wrong_and_where(template: str, message: str, line: int) -> None:
    found = check(template)
    assert found is not None
    assert message in found[0]
    assert found[1] == line


def test_check_accepts_what_runs() -> None:
    for template in ("", "plain {x}", "{{ a.b | default(1) }}", "{% if a %}{{ a }}{% endif %}", "{# note #}"):
        assert check(template) is None
