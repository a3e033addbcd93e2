"""The fuzzer of playbooks, for a minute: `python -m tests.property.fuzz playbooks` for longer."""

from tests.property.fuzz.playbooks import FUZZER
from tests.property.fuzz.runner import in_ci


def test_no_case_of_playbooks_breaks_a_promise() -> None:
    in_ci(FUZZER)
