"""The fuzzer of templates, for a minute: `python -m tests.property.fuzz templates` for longer."""

from tests.property.fuzz.runner import in_ci
from tests.property.fuzz.templates import FUZZER


def test_no_case_of_templates_breaks_a_promise() -> None:
    in_ci(FUZZER)
