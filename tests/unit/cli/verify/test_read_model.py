"""The read model beside the log: rows that differ are told by table and key; one that is behind is no violation."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from services.cli.verify.checker import Checker, everything
from services.cli.verify.read_model import MAX_TOLD, Found, ReadModel
from services.cli.verify.verdict import Verdict
from shared.answers.readmodel.entry import read
from shared.answers.readmodel.fold import fold
from shared.answers.readmodel.rows import Rows
from shared.answers.readmodel.tables import JSON_COLUMNS, Tables, tables
from shared.bus.memory.bus import MemoryBus
from shared.events import subjects
from shared.runtime.readmodel.schema import FOLDER
from tests.support.planted import PARTITIONS, planted, put
from tests.unit.answers.histories import CHAIN, PARALLEL, good_day, history, simulated, stored_values

__all__ = ["simulated"]


async def projected(bus: MemoryBus, execution_id: str, until: int = 10**9) -> Tables:
    """What a projector has written up to there."""
    partition = subjects.partition_of(execution_id, PARTITIONS)
    rows = Rows()
    for message in await bus.read(f"NOETL_EVENTS_{partition}", [subjects.events_of(partition, execution_id)]):
        if message.seq <= until:
            fold(rows, read(message, PARTITIONS))
    return tables(rows)


class Written(ReadModel):
    """A read model without PostgreSQL; `change` is what someone did to its rows."""

    def __init__(
        self, bus: MemoryBus, change: Callable[[Tables], None] = lambda _: None, cursor: int = 10**9,
        purged: dict[str, datetime] | None = None,
    ) -> None:
        super().__init__("postgresql://nowhere")
        self._bus, self._change, self.cursor, self._purged = bus, change, cursor, purged or {}
        self.aside: dict[int, str] = {}

    async def found(self, partition: int, executions: Sequence[str]) -> Found | None:
        rows = {}
        for execution_id in executions:
            rows[execution_id] = await projected(self._bus, execution_id, self.cursor)
            self._change(rows[execution_id])
        return Found(self.cursor, rows, self.aside, self._purged)


async def verdict_of(
    change: Callable[[Tables], None] = lambda _: None, *, execution_id: str = PARALLEL, **options: Any
) -> Verdict:
    bus = await planted(good_day()[0], stored_values())
    found = await Checker(bus, PARTITIONS, Written(bus, change, **options), 0.0).one(execution_id)
    assert found is not None
    return found[0]


async def test_rows_as_the_log_has_them_are_counted() -> None:
    verdict = await verdict_of()
    assert (verdict.verdict, verdict.projection.state) == ("verified", "same")
    assert verdict.projection.rows == sum(verdict.projection.tables.values()) > 30
    events = sum(len(record.events) for _, record in history(PARALLEL))
    assert (verdict.projection.tables["event"], verdict.projection.tables["execution"]) == (events, 1)


def changed(table: str, at: int, **fields: Any) -> Callable[[Tables], None]:
    return lambda found: found[table][at].update(fields)


@pytest.mark.parametrize(("change", "says"), [
    (changed("step_run", 0, status="running"),
     'table step_run, row start:1: status is "running", by the log it is "done"'),
    (changed("execution", 0, result="[1]"), f"table execution, row {PARALLEL}: result is [1], by the log it is "),
    (changed("iteration", 2, worker="somebody"), 'table iteration, row start:1/2: worker is "somebody"'),
    (changed("loop", 0, done=99), "table loop, row start:1: done is 99, by the log it is "),
    (changed("task_run", 0, attempt=7), ": attempt is 7, by the log it is 1"),
    (changed("event", 2, payload="{}"), "table event, row router-3: payload is {}, by the log it is "),
    (changed("ctx", 0, value="0"), "table ctx, row total: value is 0, by the log it is "),
    (lambda found: found["ctx"].clear(), "table ctx, row all: missing"),
    (lambda found: found["loop"].append({**found["loop"][0], "step_run_id": "x:1"}),
     "table loop, row x:1: not in the log"),
])
async def test_changed_row_is_told_by_table_and_key(change: Callable[[Tables], None], says: str) -> None:
    verdict = await verdict_of(change)
    assert (verdict.verdict, verdict.projection.state) == ("violated", "different")
    assert {violation.rule for violation in verdict.violations} == {"projection"}
    assert says in verdict.violations[0].message


def test_every_json_column_of_the_migrations_is_read_as_one() -> None:
    text = re.sub("--.*", "", "".join(path.read_text() for path in sorted(FOLDER.glob("*.sql"))))
    behind_the_view = {"events", "lease", "statuses"}
    assert set(re.findall(r"(\w+)\s+jsonb\b", text)) - behind_the_view == JSON_COLUMNS


async def test_columns_of_a_later_version_are_left_alone() -> None:
    assert (await verdict_of(changed("execution", 0, tenant="acme"))).projection.state == "same"


async def test_many_differences_are_counted_and_not_all_told() -> None:
    def change(found: Tables) -> None:
        for row in found["event"]:
            row["status"] = "other"

    verdict = await verdict_of(change)
    assert len(verdict.violations) == MAX_TOLD + 1
    assert "more values of the read model differ" in verdict.violations[-1].message


async def test_model_that_is_behind_is_no_violation() -> None:
    verdict = await verdict_of(cursor=1)
    assert (verdict.verdict, verdict.projection.state) == ("verified", "behind")
    assert verdict.projection.reason == "the read model is behind the log"


async def test_database_that_does_not_answer_is_no_violation() -> None:
    bus = await planted(good_day()[0], stored_values())
    for dsn, reason in (("", "no database is known"), ("postgresql://127.0.0.1:1/x", "no answer from PostgreSQL")):
        async with ReadModel(dsn) as model:
            found = await Checker(bus, PARTITIONS, model, 0.0).one(CHAIN)
        assert found is not None
        assert (found[0].verdict, found[0].projection.state) == ("verified", "unknown")
        assert found[0].projection.reason.startswith(reason)


async def test_execution_that_moves_on_is_read_again() -> None:
    """The projector has seen more than was read: what is new is in the log, and is read."""
    entries = history(CHAIN)
    bus = await planted({CHAIN: entries[:6]})

    class Moving(Written):
        async def found(self, partition: int, executions: Sequence[str]) -> Found | None:
            if executions and len(await bus.read(f"NOETL_EVENTS_{partition}", [">"])) == 6:
                for seq, record in entries[6:]:
                    put(bus, seq, CHAIN, record)
            return await super().found(partition, executions)

    found = await Checker(bus, PARTITIONS, Moving(bus), 0.0).one(CHAIN)
    assert found is not None
    assert (found[0].verdict, found[0].projection.state, found[0].last) == ("verified", "same", entries[-1][0])


async def test_execution_that_moves_on_for_ever_is_not_compared() -> None:
    entries = history(PARALLEL)
    bus = await planted({PARALLEL: entries[:2]}, stored_values())

    class Ahead(Written):
        async def found(self, partition: int, executions: Sequence[str]) -> Found | None:
            for _ in executions:
                place = len(await bus.read(f"NOETL_EVENTS_{partition}", [">"]))
                put(bus, entries[place][0], PARALLEL, entries[place][1])
            return await super().found(partition, executions)

    found = await Checker(bus, PARTITIONS, Ahead(bus), 0.0).one(PARALLEL)
    assert found is not None
    assert (found[0].verdict, found[0].projection.state) == ("unfinished", "behind")
    assert "moves on" in found[0].projection.reason


async def test_row_that_claims_to_have_seen_more_than_there_is_is_told() -> None:
    verdict = await verdict_of(changed("execution", 0, seq=10**9))
    assert f"table execution, row {PARALLEL}: seq is {10**9}" in verdict.violations[0].message


async def test_record_that_was_set_aside_is_told() -> None:
    bus = await planted(good_day()[0], stored_values())
    model, seq = Written(bus), history(CHAIN)[3][0]
    model.aside[seq] = "a value that PostgreSQL refuses"
    found = await Checker(bus, PARTITIONS, model, 0.0).one(CHAIN)
    assert found is not None
    assert f"the projector set record {seq} aside: a value that PostgreSQL refuses" in found[0].violations[0].message


async def test_all_compares_the_rows_too() -> None:
    bus = await planted(good_day()[0], stored_values())
    summary = await everything(Checker(bus, PARTITIONS, Written(bus), 0.0))
    assert summary.projections() == {"same": len(good_day()[0])}
    wrong = await everything(Checker(bus, PARTITIONS, Written(bus, changed("execution", 0, path="x")), 0.0))
    assert wrong.words() == {"violated": len(good_day()[0])}
    behind = await everything(Checker(bus, PARTITIONS, Written(bus, cursor=0), 0.0))
    assert (behind.words(), behind.projections()) == (
        {"verified": len(good_day()[0])}, {"behind": len(good_day()[0])})


async def test_rows_that_were_purged_are_no_violation() -> None:
    def purge(rows: Tables) -> None:
        rows["execution"][0]["workload"] = None
        rows["event"].clear()

    verdict = await verdict_of(purge, purged={PARALLEL: datetime(2026, 11, 16, tzinfo=UTC)})
    assert (verdict.verdict, verdict.projection.state) == ("verified", "unknown")
    assert verdict.projection.reason == "its rows were purged on 2026-11-16 (noetlctl admin purge)"


def test_every_migration_has_a_number_of_its_own() -> None:
    numbers = [path.name.split("_")[0] for path in FOLDER.glob("*.sql")]
    assert len(numbers) == len(set(numbers))
