from datetime import UTC, datetime

import pytest

from shared.answers.readmodel.rows import Ending, Execution, Loop, Rows, Run
from shared.runtime.readmodel import live_rows
from shared.runtime.readmodel.live_rows import LiveRows

AT = datetime(2030, 1, 1, tzinfo=UTC)


def batch(*names: str, runs: int = 1, status: str = "running") -> Rows:
    rows = Rows({name: Execution(name, 0, AT, AT, status=status, workload="{}") for name in names})
    for name in names:
        for number in range(runs):
            rows.runs[name, f"r:{number}", -1] = Run(name, f"r:{number}", result="[1]")
        rows.loops[name, "r:0"] = Loop(name, "r:0")
    return rows


def held(*names: str, seq: int = 5) -> LiveRows:
    live = LiveRows()
    live.committed(batch(*names), names, seq)
    return live


def test_what_was_written_is_held_without_what_no_fold_reads() -> None:
    found = held("a").at(5).of("a")
    assert found is not None
    assert found.execution.workload is None
    assert found.runs["a", "r:0", -1] == Run("a", "r:0")
    assert found.loops["a", "r:0"] == Loop("a", "r:0")


def test_another_cursor_forgets_everything() -> None:
    live = held("a")
    assert live.at(6).of("a") is None
    assert live.at(5).of("a") is None


def test_a_record_set_aside_forgets_nothing() -> None:
    live = held("a")
    live.at(5).moved(6)
    assert live.at(6).of("a") is not None


def test_an_execution_that_was_there_before_is_not_held() -> None:
    live = held("a")
    live.committed(batch("a", "b"), (), 6)
    assert live.at(6).of("a") is not None
    assert live.of("b") is None


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_an_execution_that_is_over_is_not_held(status: str) -> None:
    live = held("a", "b")
    live.committed(batch("a", status=status), (), 6)
    assert live.at(6).of("a") is None
    assert live.of("b") is not None


def test_an_execution_whose_rows_a_statement_changed_is_not_held() -> None:
    live = held("a")
    rows = batch("a")
    rows.endings.append(Ending("a", "r:0", AT))
    live.committed(rows, (), 6)
    assert live.at(6).of("a") is None


def test_an_execution_with_too_many_rows_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_rows, "MAX_ROWS_OF_ONE", 5)
    live = held("a")
    live.committed(batch("a", runs=3), (), 6)
    assert live.at(6).of("a") is not None
    live.committed(batch("a", runs=4), (), 7)
    assert live.at(7).of("a") is None


def test_there_is_room_for_so_many_rows_and_the_latest_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_rows, "MAX_ROWS", 9)  # three executions of three rows
    live = held("a", "b", "c")
    live.committed(batch("a"), (), 6)
    live.committed(batch("d"), ("d",), 7)
    assert [name for name in "abcd" if live.at(7).of(name)] == ["a", "c", "d"]
