"""Who of a local loop's iterations leaves the line at a tool, and with it the whole loop."""

import pytest

from services.worker.tool_turn import is_patient


@pytest.mark.parametrize(("since", "patient"), [
    ({0: 5.0}, {0: False}),
    ({0: 5.0, 1: None}, {0: True}),               # 1 is at work: the loop gets on
    ({0: 5.0, 1: 6.0}, {0: False, 1: True}),      # 0 may have the next turn: 1 does not decide
    ({3: 6.0, 1: 5.0, 2: 5.0}, {3: True, 1: False, 2: True}),
])
def test_the_loop_leaves_when_all_wait_and_the_first_of_them_has_waited_too_long(
    since: dict[int, float | None], patient: dict[int, bool]
) -> None:
    assert {index: is_patient(index, since) for index in patient} == patient
