"""That the recordings notice: a reader, a default or a rule that differs from that of then is found."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from shared.answers.readmodel.entry import Entry
from shared.answers.readmodel.fold import fold
from shared.answers.readmodel.rows import Rows
from shared.dsl.model.edition import EDITION
from shared.engine.routing import state as routing
from shared.engine.routing.state import Execution
from shared.errors import Corrupt
from shared.events import model as ev
from shared.events.record import Record
from shared.runtime.stores import plans
from tests.golden import answers as asking
from tests.golden import files
from tests.golden.inside.worlds import describe
from tests.golden.test_golden import unread

OLD = "3cf4767"


def is_missed(was: str, now: str) -> bool:
    """The log is read by someone to whom this text means nothing."""
    log = files.recorded(OLD, "peace")
    lines = [replace(line, text=line.text.replace(was, now)) for line in log.lines]
    assert lines != log.lines
    try:
        return list(unread(replace(log, lines=lines))) != []
    except Corrupt:
        return True


@pytest.mark.parametrize("field", ["set_ctx", "run_id", "as_of", "outcome", "workload", "epoch", "tokens", "delay"])
def test_a_field_of_another_name_is_missed(field: str) -> None:
    """Whether it has to be there or not."""
    assert is_missed(f'"{field}":', f'"{field}_now":')


@pytest.mark.parametrize("kind", ["token.joined", "loop.done", "limit.granted", "task.waiting"])
def test_a_kind_of_event_that_nobody_knows_is_missed(kind: str) -> None:
    assert is_missed(f'"{kind}"', '"other.kind"')


def test_another_default_is_missed() -> None:
    today: dict[str, dict[str, Any]] = {}
    describe(msgspec.inspect.type_info(Record), today)
    today["task.done"]["element"] = [0]
    found = list(files.differences(files.fields(OLD), msgspec.json.decode(msgspec.json.encode(today))))
    assert found == ["task.done.element[0]: -1 became 0"]


def by_the_rules_of_today(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plans, "edition_of", lambda _name: EDITION)


def ctx_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    apply = routing.apply

    def forgets(state: Execution, event: ev.Event, ts: str, seq: int = 0) -> None:
        if not isinstance(event, ev.CtxPatched):
            apply(state, event, ts, seq)

    patch.setattr(routing, "apply", forgets)


def loops_are_not_projected(patch: pytest.MonkeyPatch) -> None:
    def forgets(rows: Rows, entry: Entry) -> None:
        if entry.record.writer != "scheduler":
            fold(rows, entry)

    patch.setattr(asking, "fold", forgets)


@pytest.mark.parametrize(("mutant", "where"), [
    (by_the_rules_of_today, ".verify."), (ctx_is_forgotten, ".verify."), (loops_are_not_projected, "rows.loop"),
])
def test_another_rule_or_fold_is_missed(
    mutant: Callable[[pytest.MonkeyPatch], None], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    found = asyncio.run(asking.answers(files.recorded(OLD, "stack")))
    changed = list(files.differences(files.answers(OLD)["stack"], found))
    assert any(where in each for each in changed), changed[:5]
