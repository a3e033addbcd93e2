"""Whoever cannot read a history hears who can say what is wrong with it."""

import pytest

from services.cli.executions.histories import fitting
from shared.answers.trace.critical_path import trace
from shared.errors import Corrupt
from shared.events.record import Record
from tests.unit.answers.tale import EXECUTION, T0, Tale


def test_a_history_that_does_not_fit_together_is_for_verify() -> None:
    seq, record = Tale().begin("a").entries[0]
    broken = Record(record.execution_id, record.writer, 1, "yesterday", record.events)
    said = r"the history of .* does not fit together: ValueError .* \(noetlctl verify tells what is wrong\)$"
    with pytest.raises(Corrupt, match=said), fitting():
        trace(EXECUTION, [(seq, broken)], T0)
