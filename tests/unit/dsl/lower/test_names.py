"""Names in templates are replaced where they are free, and nowhere else."""

import pytest

from shared.dsl.lower.names import Names, asks_for_errors, expression, free_names, rewrite

NAMES = Names(plain={"vars": "ctx", "response": "_prev"}, dotted={("error", "status"): "code"}, ok="ok", failed="bad")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{{ vars.x }}", "{{ ctx.x }}"),
        ("{{ x.vars }}", "{{ x.vars }}"),
        ("{{ 'vars' }} vars", "{{ 'vars' }} vars"),
        ("{{ f(vars=vars) }}", "{{ f(vars=ctx) }}"),
        ("{{ a | vars }}", "{{ a | vars }}"),
        ("{{ a is vars }} {{ a is not vars }}", "{{ a is vars }} {{ a is not vars }}"),
        ("{% for vars in a %}{{ vars }}{% endfor %}", "{% for vars in a %}{{ vars }}{% endfor %}"),
        ("{% for response in vars %}{{ response }}{% endfor %}\n",
         "{% for response in ctx %}{{ response }}{% endfor %}\n"),
        ("{% if vars.x %}vars{% endif %}", "{% if ctx.x %}vars{% endif %}"),
        ("{# vars #}{% raw %}{{ vars }}{% endraw %}", "{# vars #}{% raw %}{{ vars }}{% endraw %}"),
        ("{{ {'vars': vars}['vars'] }}", "{{ {'vars': ctx}['vars'] }}"),
        ("{{ error.status in [1] }} {{ error.kind }}", "{{ code in [1] }} {{ error.kind }}"),
        ("{{ event.name == 'call.done' }}", "{{ ok }}"),
        ("{{ 'call.error' == event.name }}", "{{ bad }}"),
        ("{{ event.name in ['call.done', 'call.error'] }}", "{{ (ok or bad) }}"),
        ("{{ event.name not in ('call.done',) }}", "{{ (not (ok)) }}"),
        ("{{ event.name == 'loop.done' }}", "{{ false }}"),
        ("{{ vars ` }}", "{{ vars ` }}"),
    ],
)
def test_rewriting(text: str, wanted: str) -> None:
    assert rewrite(text, NAMES) == wanted


def test_a_text_without_names_to_replace_comes_back_as_it_is() -> None:
    text = "{{ workload.x }} and {{ iter.y }}"
    assert rewrite(text, NAMES) is text


def test_arcs_keep_the_event() -> None:
    arc = Names(arc=True)
    assert rewrite("{{ event.name == 'call.done' }}", arc) == "{{ event.name == 'call.done' }}"
    assert rewrite("{{ event.name != 'tool.processed' }}", arc) == "{{ event.name != 'step.done' }}"


@pytest.mark.parametrize(("text", "asks"), [
    ("{{ event.name == 'step.exit' }}", False), ("{{ error is defined }}", True), ("{{ x.error }}", False),
    ("{{ response is not defined }}", True), ("{{ event.name == 'call.error' }}", True),
    ("{{ event.name != 'call.done' }}", True), ("{{ event.name == 'step.exit' and x != 1 }}", False),
])  # fmt: skip
def test_what_asks_for_errors(text: str, asks: bool) -> None:
    assert asks_for_errors(text) == asks


def test_free_names_and_expressions() -> None:
    assert free_names("{{ a.b + c(d=e) | f }}") == {"a", "c", "e"}
    assert expression("{{ a + 1 }}") == "a + 1"
    assert expression("{{ -a }}") == "-a"
    assert expression("{{- a -}}") == "a"
    assert expression("x {{ a }}") is None
    assert expression("{{ a }}{{ b }}") is None
