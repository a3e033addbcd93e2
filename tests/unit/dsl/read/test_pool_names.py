"""The pool of a step: a name that no new pool can have is a warning, since one from before may have it."""

import pytest

from shared.dsl.compile import compile_playbook
from shared.dsl.read.pool_names import NAME_FIX, is_pool_name, name_fix
from shared.tools import registry
from tests.support.playbooks import head


def told(pool: str) -> list[tuple[str, str, str]]:
    source = f"{head('p')}workflow:\n  - {{step: start, spec: {{pool: {pool}}}, tool: {{kind: noop}}}}\n"
    compiled = compile_playbook(source, kinds=registry.specs())
    assert (compiled.plan is None) == any(each.severity == "error" for each in compiled.diagnostics)
    return [(each.severity, each.message, each.fix) for each in compiled.diagnostics]


def test_what_a_pool_can_be_called_is_taken_in_silence() -> None:
    assert told("gpu-1") == []


def test_a_name_from_before_compiles_with_a_warning_that_names_the_nearest() -> None:
    assert told("GPU_1") == [("warning", "no new pool can be called 'GPU_1'", f"write gpu-1: {NAME_FIX}")]


def test_what_never_was_a_name_is_an_error() -> None:
    assert told("'a b'") == [("error", "a pool cannot be called 'a b'", f"write a-b: {NAME_FIX}")]
    assert told("7") == [("error", "a pool cannot be called 7", NAME_FIX)]


@pytest.mark.parametrize(("name", "good"), [
    ("a", True), ("etl-eu-1", True), ("a" * 63, True), ("a" * 64, False), ("1a", False), ("-a", False), ("a-", False),
    ("A", False), ("a_b", False), ("a.b", False), ("", False), ("a\n", False),
])
def test_names_are_dns_labels_that_begin_with_a_letter(name: str, good: bool) -> None:
    assert is_pool_name(name) == good


def test_a_fix_never_names_what_is_refused_too() -> None:
    for name in ("_", "---", "1", "1_a", "É", "a" * 80, "ß-X"):
        word = name_fix(name).partition(": ")[0].removeprefix("write ")
        assert is_pool_name(word) or name_fix(name) == NAME_FIX
