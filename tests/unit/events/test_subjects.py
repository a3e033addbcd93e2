"""Subjects of commands are read as they are written."""

import pytest

from shared.events import subjects
from shared.events.run_index import FIRST_FRAME, RUN


@pytest.mark.parametrize("index", [RUN, 0, 41, FIRST_FRAME, FIRST_FRAME - 12])
def test_a_command_is_found_by_its_subject(index: int) -> None:
    subject = subjects.command("etl", "x1", "start:3", index)
    assert subjects.command_of(f"{subjects.COMMANDS}.etl.x1.", subject) == ("start:3", index)
