"""What templates are known to take long for has its price."""

import time

import pytest

from shared.dsl.templates.budget import MAX_WORK, Budget
from shared.dsl.templates.evaluate import evaluate
from shared.errors import TemplateError
from tests.security.worst_templates import SCOPE, WORST

SLOW_S = 1.0      # of CPU time; a budget is worth 0.05 s on a machine of its own


def _told(template: str) -> str:
    try:
        evaluate(template, SCOPE)
    except TemplateError as error:
        return f"{error.kind}: {error}"
    return ""


@pytest.mark.parametrize("template", WORST)
def test_the_worst_templates_end_at_their_budget(template: str) -> None:
    began = time.thread_time()
    with Budget(None) as spent:
        told = _told(template)
    assert told == "" or "limit" in told or "no filter" in told
    assert time.thread_time() - began < SLOW_S
    assert 0 < spent.used <= MAX_WORK + 1
