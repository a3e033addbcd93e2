"""Who reads whom."""

from typing import get_args

import pytest

from shared.events.readers import FOLDED, INPUTS, Decider
from shared.events.record import Writer


def test_every_writer_is_read_by_a_decider() -> None:
    assert {writer for inputs in INPUTS.values() for writer in inputs} == set(get_args(Writer))


@pytest.mark.parametrize("decider", get_args(Decider))
def test_a_decider_folds_its_own_records_and_its_inputs(decider: Decider) -> None:
    assert decider not in INPUTS[decider], "what it has decided is no news to it"
    assert set(FOLDED[decider]) == {decider, *INPUTS[decider]}
