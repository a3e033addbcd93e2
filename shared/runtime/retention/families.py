"""Which executions are old enough: those that are over and whose whole family is.

1. *A family is a tree.* An execution has at most one that it came from: whoever called it (`parent_id`), or what it
   was rerun from (`rerun_of`). Either may refer to results of the other, so a family goes as a whole, or not at all.
   Its top has neither, and is found by going up; the rest by going down from there.
2. *What is not known lives.* A member without a row is one whose records the read model has not seen.
3. *A family can grow only while a member lives, or by a rerun.* A rerun takes what it refers to from an execution that
   is not older than the age of results (`services/router/reruns.py`), and nothing goes before that age and a margin
   are over, up to which the read model has seen everything (`sweep.py`). So whoever began in time has been seen, and
   whoever begins too late is refused.
4. *Found once.* A family that may not go is remembered by its top until the pass is over: a parent of 100,000 children
   that lives is not looked at 100,000 times.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

import asyncpg

from shared.runtime.readmodel.statements import SQL

ENDED = ("completed", "failed", "cancelled")
MAX_FAMILY = 100_000  # a larger one stays
MAX_DEPTH = 1_000


class Families:
    """What one pass knows. `kept` are executions that are old enough themselves, by what keeps them."""

    def __init__(self) -> None:
        self._living = {"": f"more than {MAX_DEPTH} above it"}  # top → the member that keeps it
        self._gone: set[str] = set()
        self.kept: dict[str, str] = {}

    async def old(self, connection: asyncpg.Connection, candidates: Sequence[str], before: datetime) -> list[str]:
        """Whole families, each member once in a pass."""
        found: list[str] = []
        for candidate, top in (await _tops(connection, candidates)).items():
            if candidate in self._gone:
                continue
            if top not in self._living:
                members = await connection.fetch(SQL["family"], top, MAX_FAMILY + 1)
                if not (living := _living(members, before)):
                    found += [each["execution_id"] for each in members]
                    self._gone.update(each["execution_id"] for each in members)
                    continue
                self._living[top] = living
            self.kept[candidate] = self._living[top]
        return found


async def _tops(connection: asyncpg.Connection, candidates: Iterable[str]) -> dict[str, str]:
    """Empty for one that is too far down for its top to be found."""
    rows = await connection.fetch(SQL["tops"], list(candidates), MAX_DEPTH)
    return {row["candidate"]: row["top"] if row["depth"] < MAX_DEPTH else "" for row in rows}


def _living(members: Sequence[asyncpg.Record], before: datetime) -> str:
    """The first that keeps the family; empty when none does."""
    if len(members) > MAX_FAMILY:
        return f"more than {MAX_FAMILY} of one family"
    for each in members:
        if each["status"] not in ENDED or each["finished_at"] is None or each["finished_at"] >= before:
            return str(each["execution_id"])
    return "" if members else "nobody"
