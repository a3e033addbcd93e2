"""Rows that `kind: postgres` claims, committed once they are kept."""

from typing import Any

import pytest

from tests.contract.tools.on_postgres import run
from tests.support.calls import call

__all__ = ["run"]


@pytest.fixture
def claim(opened, database: str):
    tool = opened("postgres")

    async def one(command: str, keep: Any):
        return await tool.claim(call({"command": command}, auth={"dsn": database}), keep)

    return one


CLAIM = "UPDATE queue SET taken = true WHERE id <= 2 RETURNING id"


@pytest.mark.parametrize("kept", [True, False])
async def test_a_claim_is_committed_only_when_its_rows_are_kept(run, claim, kept: bool) -> None:
    await run("CREATE TABLE queue AS SELECT g AS id, false AS taken FROM generate_series(1, 3) g")
    seen: list[Any] = []

    async def keep(outcome: Any) -> bool:
        seen.append(outcome.result["rows"])
        free = await run("SELECT count(*) FROM queue WHERE NOT taken")
        assert free.result["rows"] == [{"count": 3}]  # to others nothing has happened yet
        return kept

    assert (await claim(CLAIM, keep)).status == "ok"
    assert seen == [[{"id": 1}, {"id": 2}]]
    left = await run("SELECT count(*) FROM queue WHERE NOT taken")
    assert left.result["rows"] == [{"count": 1 if kept else 3}]


async def test_a_claim_whose_rows_could_not_be_kept_is_rolled_back(run, claim) -> None:
    await run("CREATE TABLE queue AS SELECT 1 AS id, false AS taken")

    async def keep(_outcome: Any) -> bool:
        raise RuntimeError("no log")

    assert (await claim(CLAIM, keep)).error["kind"] == "internal"
    assert (await run("SELECT taken FROM queue")).result["rows"] == [{"taken": False}]


async def test_a_claim_does_not_only_read(opened, database: str) -> None:
    async def keep(_outcome: Any) -> bool:
        raise AssertionError("nothing was claimed")

    asked = call({"command": CLAIM}, spec={"read_only": True}, auth={"dsn": database})
    assert (await opened("postgres").claim(asked, keep)).error["kind"] == "config"


async def test_a_claim_that_ends_its_own_transaction_is_refused(claim) -> None:
    async def keep(_outcome: Any) -> bool:
        raise AssertionError("nothing was claimed")

    assert (await claim("COMMIT; SELECT 1", keep)).error["kind"] == "config"
