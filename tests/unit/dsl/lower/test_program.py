"""Programs whose `main` names what its task does not hand over."""

import json
from typing import Any

import pytest

from shared.dsl.compile import compile_playbook
from shared.tools import registry
from tests.support.playbooks import head

HEAD = head("a") + "workload: {city: x, items: [1]}\nworkflow:\n"


def _args(code: str, args: str = "", *, strict: bool = False) -> Any:
    given = f"args: {args}, " if args else ""
    source = f"{HEAD}  - step: start\n    tool: {{kind: python, {given}code: {code!r}}}\n"
    compiled = compile_playbook(source, kinds=registry.specs(), strict=strict)
    assert compiled.plan is not None, compiled.diagnostics
    return compiled.plan.steps["start"].tasks[0].config.get("args")


@pytest.mark.parametrize(("code", "args", "found"), [
    ("def main(city): return city", "", {"city": "{{ city }}"}),
    ("def main(city, n): return city", "{n: 3}", {"city": "{{ city }}", "n": 3}),
    ("async def main(a, *, b, c=1): return a", "", {"a": "{{ a }}", "b": "{{ b }}"}),
    ("def main(city='y', *rest, **more): return city", "", None),
    ("def main(input_data): return 1", "", None),
    ("def main(args): return args", "", None),
    ("def main(): return 1", "", None),
    ("def other(city): return city", "", None),
    ("result = 1  # def main(x)", "", None),
    ("def main(x: return 1", "", None),
])
def test_a_required_parameter_is_found_by_its_name(code: str, args: str, found: Any) -> None:
    assert _args(code, args) == found


def test_the_canonical_form_hands_over_only_what_it_says() -> None:
    assert _args("def main(city): return city", strict=True) is None


def test_a_parameter_nothing_defines_is_told() -> None:
    source = f"{HEAD}  - step: start\n    tool: {{kind: python, code: 'def main(gone): return gone'}}\n"
    compiled = compile_playbook(source, kinds=registry.specs())
    assert [each.code for each in compiled.diagnostics] == ["DSL910"]


def _program(code: str) -> tuple[str, dict[str, Any], list[str]]:
    source = f"{HEAD}  - step: start\n    tool: {{kind: python, code: {json.dumps(code)}}}\n"
    compiled = compile_playbook(source, kinds=registry.specs())
    assert compiled.plan is not None, compiled.diagnostics
    config = compiled.plan.steps["start"].tasks[0].config
    return config["code"], config.get("args") or {}, [each.code for each in compiled.diagnostics]


def test_a_template_in_code_is_handed_over_as_a_variable() -> None:
    code = "def main():\n    a = {{ city }}\n    return [a, {{ items | default([1]) }}, {{ city }}]  # {{ city }}\n"
    assert _program(code) == (
        "def main():\n    a = value_1\n    return [a, value_2, value_1]  # {{ city }}\n",
        {"value_2": "{{ items | default([1]) }}", "value_1": "{{ city }}"}, ["DSL918"])
    assert _program("value_1 = {{ city }}")[:2] == ("value_1 = value_2", {"value_2": "{{ city }}"})


@pytest.mark.parametrize("code", [
    "result = '{{ city }}'", "result = f'{{ city }}'", "# {{ city }}\nresult = 1", "result = {{'a': 1}['a']: {2: 3}}",
    "result = {'a': {'b': 1}}", "result = {'a': {'b': {}}}", "x = { {1: 2}[1] }", "broken = {{ city",
    "result = '''\n{{ x }}",
])
def test_what_is_no_template_in_code_is_left_alone(code: str) -> None:
    assert _program(code) == (code, {}, [])


@pytest.mark.parametrize(("code", "context"), [
    ("result = context.get('city')", {"city": "{{ city | default(none) }}"}),
    ("def main(context):\n    return context.get('items', [])", {"items": "{{ items | default([]) }}"}),
    ("result = [context['city'], context.get('n', {}).get('m', 1), context.get('s', 'a\"b')]",
     {"city": "{{ city }}", "n": "{{ n | default({}) }}", "s": '{{ s | default("a\\"b") }}'}),
    ("result = context.get('x', [None, os])", {"x": "{{ x | default(none) }}"}),
    ("result = list(context.keys())", {}),
    ("context = {}\nresult = context.get('city')", None),
    ("import context\nresult = context.get('city')", None),
    ("def f(context):\n    return context.get('city')\nresult = f({})", None),
    ("result = 'context'", None),
])
def test_what_a_program_looks_up_in_context_is_handed_over(code: str, context: Any) -> None:
    assert _program(code)[1].get("context") == context
