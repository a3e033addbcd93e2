"""What counts as a proof: a test that fails by what it finds, and nothing less."""

import pytest

from shared.dsl.read.spec_layers import merge
from tests.conformance.mutants import proof
from tests.conformance.mutants.mutant import Edit, Mutant

TEST = "tests/unit/dsl/read/test_spec_layers.py::test_maps_merge_deep_scalars_and_lists_replace"
WHERE = "shared.dsl.read.spec_layers:merge"


def test_a_change_that_breaks_nothing_proves_nothing() -> None:
    with Mutant((), TEST, Edit(WHERE, "both else value", "both else (value)")).alive():
        assert not proof.fails(TEST)


def test_a_product_that_crashes_proves_nothing() -> None:
    with Mutant((), TEST, Edit(WHERE, "both else value", "nonsense else value")).alive(), \
            pytest.raises(NameError):
        proof.fails(TEST)


def test_a_change_holds_wherever_the_function_is_known_and_only_meanwhile() -> None:
    with Edit(WHERE, "for layer in layers:", "for layer in layers[:1]:").applied():
        assert merge({"a": 1}, {"b": 2}) == {"a": 1}
    assert merge({"a": 1}, {"b": 2}) == {"a": 1, "b": 2}


@pytest.mark.parametrize("old", ["no such thing", "merged"])
def test_what_is_changed_must_be_there_exactly_once(old: str) -> None:
    with pytest.raises(AssertionError, match="times, not once"), Edit(WHERE, old, "").applied():
        pass


def test_cases_are_those_of_pytest() -> None:
    rejected = "tests/conformance/test_language.py::test_what_is_rejected_is_rejected_with_its_code"
    crossed = "tests/conformance/meaning/test_places.py::test_retry_reads_the_attempt_that_failed"
    assert [len(proof.calls(test)) for test in (TEST, f"{rejected}[root vars]", crossed)] == [1, 1, 12]
    with pytest.raises(AssertionError, match="no case other"):
        proof.calls(f"{rejected}[other]")
