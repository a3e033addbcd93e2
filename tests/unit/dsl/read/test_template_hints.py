"""Each mistake in a template is told with what mends it."""

import pytest

from shared.dsl.compile import compile_playbook
from shared.tools import registry
from tests.support.playbooks import head


def told(text: str) -> list[tuple[str, str]]:
    quoted = "'" + text.replace("'", "''") + "'"
    step = f"{{step: start, tool: {{kind: noop, args: {{a: {quoted}}}}}}}"
    source = f"{head('t')}workload: {{n: 1}}\nworkflow:\n  - {step}\n"
    found = compile_playbook(source, kinds=registry.specs(), programs=True)
    return [(each.code, each.fix) for each in found.diagnostics]


@pytest.mark.parametrize(("text", "fix"), [
    ("{{ workload.n | upperr }}", "did you mean upper?"),
    ("{{ workload.n | to_json }}", "did you mean tojson?"),
    ("{{ workload.n | len }}", "did you mean length?"),
    ("{{ workload.n | startswith('a') }}", "write {{ value.startswith(…) }}"),
    ("{{ workload.n | frobnicate }}", "docs/templates.md lists what there is: filters"),
    ("{{ workload.n is defind }}", "did you mean defined?"),
    ("{{ workload.n", "close every {{ with }}"),
    ("{{ workload.n and {{ workload.n }}", "close every {{ with }}"),
    ("{% if workload.n", "close the tag with %}"),
    ("{% if workload.n %}a", "write {% endif %} at its end"),
    ("{% for x in [1] %}a", "write {% endfor %} at its end"),
    ("{% endfor %}", "remove it, or write {% for … %} before it"),
    ("{% else %}", "remove it, or write {% if … %} before it"),
    ("{% fore x in [1] %}a{% endfor %}", "did you mean for?"),
    ("{% switch workload.n %}", "the tags are if, for and set"),
    ("{% macro a() %}{% endmacro %}", "the tags are if, for and set"),
    ("{{ start = 1 }}", "write == to compare; a value is kept with set: {ctx.name: …} on the step"),
    ("{{ start === 1 }}", "write == to compare; a value is kept with set: {ctx.name: …} on the step"),
    ("{{ workload.n && 1 }}", "write and"),
    ("{{ workload.n || 1 }}", "write or"),
    ("{{ !workload.n }}", "write not, or != to compare"),
    ("{{ workload.n ? 1 : 2 }}", "write {{ this if condition else that }}"),
    ("{{ $workload.n }}", "write the name without $"),
    ("{{ 'a }}", "close the text with '"),
    ("{{ “a” }}", "write straight quotes: ' or \""),
    ("{{ }}", "write an expression between {{ and }}"),
    ("{{ workload.n + }}", "something is missing before }}"),
    ("{{ workload. }}", "a name is missing after . or |"),
    ("{{ workload.n | }}", "a name is missing after . or |"),
    ("{{ (workload.n }}", "write ) before it"),
    ("{{ [1, 2 }}", "write ] before it"),
    ("{{ workload.n) }}", "remove ), or open it before"),
    ("{{ workload.n 1 }}", "write an operator before integer; ~ joins texts"),
    ("{{ workload.n else }}", "write an operator before else; ~ joins texts"),
    ("{{ 'a': 1 }}", "write a mapping as {{ {'key': value} }}"),
    ("{# a", "close it with #}"),
    ("{{ workload.n @ 1 }}", "remove @, or write it within quotes"),
    ("{{ range(1, stop=2, stop=3) }}", "keep one of the two"),
    ("{{ [x for x in workload.n] }}", "there are no comprehensions: use the filters map and select, or {% for %}"),
    ("{{ {x: 1 for x in workload.n} }}", "there are no comprehensions: use the filters map and select, or {% for %}"),
    ("{{ [1] | map(lambda x: x) }}",
     "there are no functions of your own: use the filters map and select, or {% for %}"),
    ("{{ f'{workload.n}' }}", "there are no f-texts: join parts with ~"),
    ("{% for x in [1] %}{{ x }}{% endif %}", "write {% endfor %} instead, or before it"),
])
def test_what_cannot_be_read_is_told_with_what_mends_it(text: str, fix: str) -> None:
    if "{#" in text:
        text = "{{ 1 }}" + text  # a comment alone makes no template
    assert told(text) == [("DSL601", fix)]


@pytest.mark.parametrize(("text", "fix"), [
    ("{{ rnage(3) }}", "did you mean range?"),
    ("{{ upper(workload.n) }}", "write {{ value | upper }}"),
    ("{{ len(workload.n) }}", "write {{ value | length }}"),
    ("{{ uper(workload.n) }}", "write {{ value | upper }}"),
    ("{{ frobnicate(workload.n) }}", "docs/templates.md lists what there is"),
])
def test_a_function_that_is_none_is_told(text: str, fix: str) -> None:
    assert told(text) == [("DSL910", fix)]


@pytest.mark.parametrize("text", ["{{ range(3) | list }}", "{{ dict(a=1) }}", "{{ workload.n | string | upper }}",
                                  "{{ foo(1) | default(2) }}"])
def test_what_is_right_is_not(text: str) -> None:
    assert told(text) == []


def test_the_null_of_other_languages_is_none() -> None:
    assert told("{{ workload.n == null }}") == [("DSL910", "did you mean none?")]
