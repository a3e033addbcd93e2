"""Pools that do not exist, when a server is known."""

import pytest

from shared.dsl.compile import compile_playbook
from tests.support.playbooks import head
from tests.unit.dsl.tool_kinds import KINDS

HEAD = head("pools")


def told(text: str, *pools: str) -> list[str]:
    return [str(each) for each in compile_playbook(HEAD + text, kinds=KINDS, file="p", pools=pools).diagnostics]


def test_a_pool_of_a_step_that_the_server_lacks_is_an_error_that_names_those_it_has() -> None:
    text = "workflow:\n  - {step: start, tool: {kind: noop}, spec: {pool: gpus}}\n"
    assert told(text, "gpu", "default") == [
        "p:5:52: error DSL409: there is no pool 'gpus' on the server, so 'start' cannot run "
        "(did you mean gpu? pools on the server: 'default', 'gpu')"]
    assert told(text, "gpus") == []
    assert compile_playbook(HEAD + text, kinds=KINDS).diagnostics == ()


def test_a_pool_of_the_executor_is_told_once_where_it_stands() -> None:
    text = """executor: {spec: {pool: batch}}
workflow:
  - {step: start, tool: {kind: noop}, next: {arcs: [{step: more}]}}
  - {step: more, tool: {kind: noop}}
"""
    assert told(text, "default") == [
        "p:4:25: error DSL409: there is no pool 'batch' on the server, so 'start' cannot run "
        "(pools on the server: 'default')"]


REQUIRES = "workflow:\n  - {step: start, tool: {kind: noop}, spec: {requires: [gpu, eu]}}\n"


def told_of(pools: dict[str, set[str]]) -> list[str]:
    return [str(each) for each in compile_playbook(HEAD + REQUIRES, kinds=KINDS, file="p", pools=pools).diagnostics]


def test_what_no_pool_of_the_server_provides_is_an_error_that_names_it() -> None:
    assert told_of({"a": {"gpu"}, "default": set()}) == [
        "p:5:56: error DSL414: no pool on the server provides eu, so 'start' cannot run (pools provide a: gpu)"]
    assert told_of({"a": {"gpu"}, "b": {"eu"}}) == [
        "p:5:56: error DSL414: no pool on the server provides eu, gpu together, so 'start' cannot run "
        "(pools provide a: gpu; b: eu)"]
    assert told_of({"a": {"gpu", "eu", "big"}}) == []


def test_a_step_names_its_pool_or_what_it_requires_not_both() -> None:
    text = "workflow:\n  - {step: start, tool: {kind: noop}, spec: {pool: a, requires: [gpu]}}\n"
    found = [str(each) for each in compile_playbook(HEAD + text, kinds=KINDS, file="p").diagnostics]
    assert found == ["p:5:55: error DSL204: pool and requires are both given: one names the pool, one chooses it "
                     "(leave one of them out)"]


@pytest.mark.parametrize(("tool", "count"), [("tool: {kind: noop}", 1), ("next: {arcs: []}", 0)])
def test_the_default_pool_must_exist_for_steps_with_tasks(tool: str, count: int) -> None:
    found = told(f"workflow:\n  - {{step: start, {tool}}}\n", "gpu")
    assert [line.split(": ")[1] for line in found] == ["error DSL409"] * count
