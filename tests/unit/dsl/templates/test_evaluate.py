"""Values, types and undefined names (LANGUAGE: template result types, undefined names)."""

from typing import Any

import pytest

from shared.dsl.model.texts import Text
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
        ("{{ ctx.a == ctx.b }}", True),
        ("{{ ctx.a != x.y.z }}", False),
        ("{{ ctx.a == none }}", False),
        ("{{ ctx.a == '' }}", False),
        ("{{ ctx.gone < 1 or 1 < ctx.gone or ctx.gone >= ctx.gone }}", False),
        ("{{ 1 < ctx.gone < 3 }}", False),
        ("{{ not ctx.gone }}", True),
        ("{{ ctx.gone or 7 }}", 7),
        ("{{ 1 if ctx.gone else 2 }}", 2),
        ("{{ ctx.n if ctx.n else ctx.gone.a }}", 2),
        ("{{ ctx.gone.a if ctx.gone else ctx.n }}", 2),
        ("{{ ctx.gone is string or ctx.gone is none or ctx.n is divisibleby(gone) }}", False),
        ("{{ (ctx.gone | length) > 0 }}", False),
        ("{{ ctx.gone + 1 > 0 }}", False),
        ("{{ ctx.gone.get('a') or 'b' }}", "b"),
        ("{{ ctx.gone.lower() == 'a' }}", False),
        ("{{ (ctx.gone ~ 'a') | default('b') }}", "b"),
        ("{{ rows | sum(attribute='gone') | default(0) }}", 0),
        ("{{ rows | sort(attribute='gone') | default(0) }}", 0),
        ("{{ ctx[gone] | default(4) }}", 4),
        ("{{ [1, 2][gone:] | default(4) }}", 4),
        ("{{ range(gone) | default(4) }}", 4),
        ("{{ (1 if gone) is defined }}", False),
        ("{{ 'timeout' in none }}", False),
        ("{{ rows | selectattr('missing') }}", []),
        ("{% if gone %}yes{% else %}no{% endif %}", "no"),
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
    ["ctx.gone", "ctx.gone + 1", "-ctx.gone", "ctx.gone and 1", "ctx.gone | int", "ctx.n if gone else ctx.gone",
     "ctx.gone ~ ''", "[ctx.gone]", "{'a': ctx.gone}", "ctx.gone | length", "[1, ctx.gone] | join",
     "'a' | replace(ctx.gone, 'b')", "{ctx.gone: 1}", "ctx[gone]", "'%s' % ctx.gone", "[ctx.gone] | tojson",
     "'{}'.format(ctx.gone)", "ctx.gone[1:]", "'a'.replace('a', ctx.gone)", "','.join([ctx.gone])", "dict(a=ctx.gone)"],
)  # fmt: skip
def test_an_undefined_value_that_is_put_somewhere_is_an_error_that_names_it(expression: str) -> None:
    with pytest.raises(TemplateError, match=r"gone' is undefined, in `") as caught:
        evaluate("{{ " + expression + " }}", SCOPE)
    assert expression in str(caught.value)


def test_output_and_iteration_of_undefined_values_are_errors() -> None:
    for template in ("a {{ gone }}", "{% for x in gone %}{% endfor %}", "{{ 1 if false }}", "{{ gone(1) }}",
                     "{% set x %}{{ gone }}{% endset %}"):  # fmt: skip
        with pytest.raises(TemplateError):
            evaluate(template, SCOPE)


@pytest.mark.parametrize(
    "when", ["{{ ctx.flag }}", "{{ ctx.flag.a.b > 3 }}", "{{ ctx.flag == 1 }}", "{{ (1 if ctx.flag) }}", "{{ a + 1 }}"],
)
def test_an_undefined_condition_does_not_hold(when: str) -> None:
    assert truth(when, SCOPE) is False


@pytest.mark.parametrize(
    "expression",
    ["ctx.gone < 1", "not ctx.gone", "1 if ctx.gone else 2", "ctx.gone is string", "ctx.gone | default(1) if gone",
     "(ctx.gone | length) > 0", "(ctx.gone + 1) | default(0)", "ctx.gone.get('a') or 1", "ctx[gone] | default(1)"],
)  # fmt: skip
def test_in_the_first_edition_every_use_of_an_undefined_value_is_an_error(expression: str) -> None:
    for evaluated in (evaluate, truth):
        with pytest.raises(TemplateError, match="is undefined"):
            evaluated(Text("{{ " + expression + " }}", strict=True), SCOPE)
    evaluate("{{ (" + expression + ") | default(none) }}", SCOPE)  # the next text is read by the rules of today


def test_in_the_first_edition_an_if_without_else_can_be_tested() -> None:
    assert evaluate(Text("{{ (1 if false) or 2 }}", strict=True), SCOPE) == 2
    assert evaluate(Text("{{ ctx.a == ctx.b }}", strict=True), SCOPE) is False


def test_an_error_names_what_the_author_wrote() -> None:
    lowered = Text("{{ (outcome.result if outcome.status == 'ok').rows }}", "{{ response.rows }}")
    with pytest.raises(TemplateError, match=r"^the value is undefined, in `\{\{ response.rows \}\}`$"):
        evaluate({"a": lowered}, {"outcome": {"status": "error"}})
    with pytest.raises(TemplateError, match=r"cannot be called, in `\{\{ response\(\) \}\}`$"):
        truth(Text("{{ outcome() }}", "{{ response() }}"), {"outcome": 1})


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
