"""Whatever the template and the values: a value of the right type, or a TemplateError."""

import contextlib
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.dsl.names import names_used
from shared.dsl.template import check, evaluate, render_sql, truth
from shared.dsl.view import view
from shared.errors import TemplateError
from shared.events.outcome import Result

scalars = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=8)
keys = st.sampled_from(["a", "b", "items", "data", "_x", "0"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)
shapes = st.sampled_from(["value", "http", "sql", "loop"])
views = st.builds(lambda value, shape: view(Result(value, shape)), values, shapes)
scopes = st.fixed_dictionaries({"x": values, "y": values | views, "v": views})

atoms = st.sampled_from(
    ["x", "y", "v", "gone", "x.a", "v.data", "y.items", "v[0]", "1", "0", "-1.5", "'s'", "none", "[]", "{}"]
)
tests = st.sampled_from(["defined", "string", "mapping", "in x", "eq(y)", "even"])
signs = st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", ">=", "in", "not in", "and", "or"])
filters = st.sampled_from(
    ["default(x)", "tojson", "fromjson", "int", "length", "first", "list", "sort", "sum", "join", "map(attribute='a')",
     "replace('s', x)", "string", "unique", "groupby('a')", "b64decode", "batch(2)", "round(x)", "format(y)",
     "dictsort"]
)  # fmt: skip


def _expressions(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return (
        st.builds("({} {} {})".format, inner, signs, inner)
        | st.builds("({} | {})".format, inner, filters)
        | st.builds("({} if {} else {})".format, inner, inner, inner)
        | st.builds("{}[{}]".format, inner, inner)
        | st.builds("{}[{}:]".format, inner, inner)
        | st.builds("{}.get({})".format, inner, inner)
        | st.builds("'{{}} %s'.format({})".format, inner)
        | st.builds("[{}, {}]".format, inner, inner)
        | st.builds("{{{}: {}}}".format, inner, inner)
        | st.builds("({} is {})".format, inner, tests)
    )


expressions = st.recursive(atoms, _expressions, max_leaves=6)


@given(expressions, scopes)
@settings(max_examples=400, deadline=None)
@example("x ** y", {"x": 2**4000, "y": 2**4000, "v": None})
@example("{x: 1}", {"x": [1], "y": 1, "v": None})
def test_an_expression_gives_plain_data_or_a_template_error(expression: str, scope: dict[str, Any]) -> None:
    template = "{{ " + expression + " }}"
    assert check(template) is None
    before = msgspec.json.encode(scope["x"])
    for run in (evaluate, truth, render_sql):
        with contextlib.suppress(TemplateError):
            result = run(template, scope)
            msgspec.to_builtins(result)
    with contextlib.suppress(TemplateError):
        evaluate("text " + template, scope)
    assert msgspec.json.encode(scope["x"]) == before


@given(st.text(alphabet="{}%#ax.|'\" \n()[]-+*~:=0", max_size=40), scopes)
@settings(max_examples=400, deadline=None)
def test_any_text_is_a_value_or_a_template_error(text: str, scope: dict[str, Any]) -> None:
    for run in (evaluate, truth, render_sql):
        with contextlib.suppress(TemplateError):
            run(text, scope)
    names_used(text)
    found = check(text)
    assert found is None or 0 <= found[1] <= text.count("\n")


@given(values)
def test_an_exact_expression_keeps_value_and_type(value: Any) -> None:
    for template in ("{{ x }}", " {{x}}\n", "{{ y.a }}", "{{ z[0] }}"):
        result = evaluate(template, {"x": value, "y": {"a": value}, "z": [value]})
        assert result == value
        assert type(result) is type(value)


@given(values.filter(lambda value: "{{" not in str(value) and "{%" not in str(value)))
def test_a_tree_without_templates_is_unchanged(value: Any) -> None:
    assert evaluate(value, {}) == value


@given(st.text())
def test_a_text_value_is_bound_whole_and_never_becomes_sql(text: str) -> None:
    sql = render_sql("SELECT {{ x }}, '{{ x }}' -- {{ x }}", {"x": text})
    assert sql.text == "SELECT $1, $2 -- "
    assert sql.params == [text, text]
