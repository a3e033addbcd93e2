"""A name is suggested when it is a slip of the fingers away, and no farther."""

import pytest

from shared.dsl.compile import compile_playbook
from shared.dsl.read.reader import is_slip, nearest
from shared.tools import registry
from tests.support.playbooks import head

KINDS = registry.specs()


@pytest.mark.parametrize(("written", "known"), [
    ("htp", "http"), ("strat", "start"), ("retrun", "return"), ("pyhton", "python"), ("postgress", "postgres"),
    ("max_inflight", "max_in_flight"), ("backoff_limit", "backoffLimit"), ("arg", "args"), ("Args", "args"),
    ("workflw", "workflow"), ("descripton", "description"), ("tools", "tool"), ("iterater", "iterator"),
])  # fmt: skip
def test_a_slip_is_one(written: str, known: str) -> None:
    assert is_slip(written, known)
    assert nearest(written, [known, "other", "words"]) == known


@pytest.mark.parametrize(("written", "known"), [
    ("subscription", "script"), ("output", "outcome"), ("order", "mode"), ("namespace", "name"), ("restart", "retry"),
    ("database", "data"), ("runtime", "timeout"), ("input", "output"), ("a", "b"), ("on", "do"), ("gcs", "desc"),
])  # fmt: skip
def test_another_word_is_none(written: str, known: str) -> None:
    assert not is_slip(written, known)
    assert nearest(written, [known]) == ""


def fixes(step: str) -> list[str]:
    source = f"{head('x')}workflow: [{{step: start, {step}}}]"
    return [each.fix for each in compile_playbook(source, kinds=KINDS, strict=True).diagnostics]


@pytest.mark.parametrize("step", [
    "tool: {kind: noop, subscription: a}", "tool: {kind: python, code: a, subscription: a}",
    "tool: {kind: noop}, subscribe: a",
    "tool: {kind: noop}, output: {a: 1}", "tool: {kind: subscriptions}", "tool: {kind: teleport}", "circuit: a",
    "tool: {kind: noop}, runtime: {image: a}", "tool: {kind: noop}, cmds: [a]",
])  # fmt: skip
def test_no_kind_and_no_key_is_guessed(step: str) -> None:
    assert not any("did you mean" in fix or "move it under" in fix for fix in fixes(step))


@pytest.mark.parametrize(("step", "fix"), [
    ("tool: {kind: postgres, auth: a}, command: SELECT 1", "move it under tool: {kind: postgres, command: …}"),
    ("tool: [{name: a, kind: noop}, {name: b, kind: shell}], cmd: ls", "move it under tool: {kind: shell, cmd: …}"),
])
def test_a_key_of_the_steps_own_tool_belongs_there(step: str, fix: str) -> None:
    assert fix in fixes(step)
