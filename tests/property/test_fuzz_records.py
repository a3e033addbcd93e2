"""The fuzzer of records, for a minute: `python -m tests.property.fuzz records` for longer."""

from tests.property.fuzz.records import FUZZER
from tests.property.fuzz.runner import in_ci


def test_no_case_of_records_breaks_a_promise() -> None:
    in_ci(FUZZER)
