"""The fuzzer of the wire, for a third of a minute: `python -m tests.property.fuzz wire` for longer."""

from tests.property.fuzz.runner import in_ci
from tests.property.fuzz.wire import FUZZER


def test_no_case_of_the_wire_breaks_a_promise() -> None:
    in_ci(FUZZER, 20.0)
