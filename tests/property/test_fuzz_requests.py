"""The fuzzer of requests, for a minute: `python -m tests.property.fuzz requests` for longer."""

from tests.property.fuzz.requests import FUZZER
from tests.property.fuzz.runner import in_ci


def test_no_case_of_requests_breaks_a_promise() -> None:
    in_ci(FUZZER)
