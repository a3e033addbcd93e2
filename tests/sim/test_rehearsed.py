"""The playbooks of the simulated world, rehearsed as `noetlctl test` does it: they end where the world says, and so
they do under crashes, duplicates and other orders, with histories that hold."""

from typing import Any

import pytest

from services.cli.testing.runner import violations
from shared.answers.playtests.expectations import Came, came
from shared.answers.rehearsal.types import Need
from shared.dsl.playtests.model import Case, PlayTest
from shared.events.outcome import Outcome, ok
from shared.tools.base.contract import Call
from shared.tools.testing.case_run import Chance, Ran, run_case
from tests.sim.books.playbooks import BOOKS, Expected, Playbook, compiled
from tests.sim.tools import answer, page

SEEDS = range(8)
TEST = PlayTest("", (), ())


def tool(need: Need) -> Outcome:
    if need.frame >= 0:
        count, most = need.config["command"].params
        first = need.frame * most
        rows = [{"k": row} for row in range(first, min(count, first + most))]
        return ok({"rows": rows, "row_count": len(rows), "columns": ["k"]}, shape="sql")
    if "params" in need.config:
        return page(Call(need.config, need.spec, None, need.key, 1.0))
    if "code" in need.config:
        return answer(need.config.get("args") or {}, need.key)
    return ok(need.config.get("args"))


def run(book: Playbook, payload: dict[str, Any], chance: Chance | None = None) -> Ran:
    plans = [plan for plan in (compiled(each.source).plan for each in BOOKS) if plan is not None]
    plans.sort(key=lambda plan: plan.path != book.name)
    return run_case(TEST, Case("any", payload=payload, run=("python", "http", "postgres")), plans, tool, chance=chance)


def ending(got: Came) -> Expected:
    """Parallel iterations append in any order."""
    ctx = {key: sorted(value) if isinstance(value, list) else value for key, value in got.ctx.items()}
    return Expected(got.status, got.result, ctx, (got.error or {}).get("kind", ""))


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.name)
def test_a_playbook_ends_as_in_the_world_whatever_goes_wrong(book: Playbook) -> None:
    payload = book.payload(3)
    plain = run(book, payload)
    assert (violations(plain), ending(came(plain.found))) == ([], book.expected(payload))
    for seed in SEEDS:
        ran = run(book, payload, Chance(seed, crash=True, dup=True, reorder=True))
        assert (seed, violations(ran), ending(came(ran.found))) == (seed, [], book.expected(payload))
