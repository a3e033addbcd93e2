"""A set block writes into a namespace, and never into a value that the template is given."""

import pytest

from shared.dsl.templates.evaluate import evaluate
from shared.errors import TemplateError


@pytest.mark.parametrize("text", ["{% set y.a %}x{% endset %}", "{% set y.a | upper %}x{% endset %}"])
def test_a_value_of_the_scope_is_not_written(text: str) -> None:
    scope = {"y": {"a": 1}}
    with pytest.raises(TemplateError, match="non-namespace"):
        evaluate(text, scope)
    assert scope == {"y": {"a": 1}}


def test_a_namespace_is() -> None:
    assert evaluate("{% set y = namespace(a=1) %}{% set y.a %}x{% endset %}{{ y.a }}", {}) == "x"
