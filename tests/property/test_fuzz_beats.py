"""The fuzzer of beats, for a minute: `python -m tests.property.fuzz beats` for longer."""

from tests.property.fuzz.beats import FUZZER
from tests.property.fuzz.runner import in_ci


def test_no_case_of_beats_breaks_a_promise() -> None:
    in_ci(FUZZER)
