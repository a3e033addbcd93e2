"""Values keep their type in a template, and what is no template stays as it is."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shared.dsl.templates.evaluate import evaluate, render_sql

scalars = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=8)
keys = st.sampled_from(["a", "b", "items", "data", "_x", "0"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)


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
