"""The small pure parts: overlay, reachability, nearest names, scalars."""

import pytest

from shared.dsl.compile import compile_playbook
from shared.dsl.model.diagnostic_codes import CODES
from shared.dsl.model.plan import Arc, Step
from shared.dsl.model.reachability import reach
from shared.dsl.read.reader import nearest, short
from shared.dsl.read.spec_layers import effective_spec, merge
from shared.tools import registry
from tests.support.playbooks import head
from tests.unit.dsl.tool_kinds import KINDS


def test_maps_merge_deep_scalars_and_lists_replace() -> None:
    outer = {"a": {"x": 1, "y": 2}, "b": 1, "c": [1, 2], "d": {"z": 1}}
    inner = {"a": {"y": 3}, "b": 2, "c": [3], "d": 5}
    assert merge(outer, inner) == {"a": {"x": 1, "y": 3}, "b": 2, "c": [3], "d": 5}
    assert outer["a"] == {"x": 1, "y": 2}


def test_effective_spec_layers_from_kind_defaults_to_task() -> None:
    layers = ({"timeout": {"read": 1, "total": 9}}, {"timeout": {"read": 2}}, {"timeout": {"read": 3}})
    assert effective_spec(KINDS["http"], layers) == {"timeout": {"connect": 10, "read": 3, "total": 9}}


def test_knobs_of_other_tools_do_not_reach_a_task() -> None:
    assert effective_spec(KINDS["python"], ({"pool_size": 3, "policy": {"admit": {}}, "timeout": 5},)) == {"timeout": 5}


def test_reach_is_the_transitive_closure() -> None:
    def to(*names: str) -> tuple[Arc, ...]:
        return tuple(Arc(name) for name in names)

    steps = {"a": Step("a", arcs=to("b", "c")), "b": Step("b", arcs=to("d")), "c": Step("c", arcs=to("c")),
             "d": Step("d", arcs=to("b")), "e": Step("e")}
    assert reach(steps) == {"a": frozenset("bcd"), "b": frozenset("bd"), "c": frozenset("c"),
                            "d": frozenset("bd"), "e": frozenset()}


def test_nearest_name() -> None:
    assert nearest("htpp", KINDS) == "http"
    assert nearest("HTTP", KINDS) == "http"
    assert nearest("zzz", KINDS) == ""
    assert nearest("x" * 100_000, KINDS) == ""


def test_messages_carry_values_shortened() -> None:
    assert len(short("x" * 1000)) < 64
    assert short({"a": 1}) == "a mapping"


def test_every_code_has_title_and_documentation() -> None:
    assert all(code.startswith("DSL") and len(code) == 6 for code in CODES)
    assert all(each.title and each.doc.endswith(".") for each in CODES.values())


@pytest.mark.parametrize(("retry", "code"), [
    ("{attempts: 3, delay: 0.2}", []), ("{attempts: '{{ n }}'}", []), ("3", ["DSL203"]), ("{times: 3}", ["DSL201"]),
    ("{attempts: 6}", ["DSL204"]), ("{delay: 6}", ["DSL204"]), ("{delay: true}", ["DSL204"]),
])  # fmt: skip
def test_the_retries_of_a_tool_are_checked(retry: str, code: list[str]) -> None:
    task = f"{{kind: http, url: 'http://x/', spec: {{retry: {retry}}}}}"
    source = f"{head('test')}workflow: [{{step: start, tool: {task}}}]"
    found = compile_playbook(source, kinds=registry.specs())
    assert [each.code for each in found.diagnostics] == code


def test_a_kind_without_retries_of_its_own_takes_none() -> None:
    source = f"{head('test')}workflow: [{{step: start, tool: {{kind: noop, spec: {{retry: {{attempts: 2}}}}}}}}]"
    (told,) = compile_playbook(source, kinds=registry.specs()).diagnostics
    assert (told.code, told.message) == ("DSL201", "unknown key 'retry' in a task's spec")
