"""At every point of every history there is an answer to why: none raises, and no live execution is without a reason."""

from typing import Any

from shared.answers.why import explain as why
from shared.answers.why.facts import Answer, Pool, Worker, World
from shared.answers.why.view import viewed
from shared.events.record import Record
from shared.events.stamp import seconds
from tests.sim.books.playbooks import BOOKS
from tests.sim.checks import PLANS, read_histories, read_values
from tests.sim.run import again, live, live_in_peace, quiet
from tests.sim.world import World as Sim

Entries = list[tuple[int, Record]]
SEEDS = 8
POOLS = {"default": Pool("default")}


def worlds(now: float) -> list[World]:
    idle = Worker("w0", "default", 4, frozenset(), 8, now)
    alive = {"router": ("r",), "scheduler": ("s",)}
    return [
        World(now, pools=POOLS),
        World(now + 60, pools=POOLS, members={"router": (), "scheduler": ()}),
        World(now + 60, (Worker("w0", "default", 4, frozenset(), 8, now + 60),), POOLS, members=alive,
              cursors={"router": 10**9, "scheduler": 10**9}),
        World(now, (idle,), POOLS, members=alive),
    ]


def answers(execution_id: str, entries: Entries, values: dict[str, Any]) -> list[Answer]:
    view = viewed(execution_id, entries, PLANS.__getitem__, values)
    now = seconds(entries[-1][1].ts)
    return [why.explain(view, world, PLANS.__getitem__, values) for world in worlds(now)]


def unanswered(world: Sim) -> tuple[int, list[object]]:
    """How many answers there are, and those that give no reason."""
    values, told, missing = read_values(world), 0, list[object]()
    for execution_id, entries in read_histories(world).items():
        begun = next(place for place, (_, record) in enumerate(entries, 1) if record.writer == "router")
        for end in range(begun, len(entries) + 1):
            for answer in answers(execution_id, entries[:end], values):
                told += 1
                over = answer.status in ("completed", "failed", "cancelled")
                kinds = {reason.kind for reason in answer.reasons}
                if not kinds & ({"over"} if over else {"blocked", "running"}):
                    missing.append((execution_id, end, answer))
    return told, missing


def test_there_is_a_reason_at_every_point_of_every_playbook() -> None:
    told, missing = unanswered(live_in_peace(*(book.name for book in BOOKS)))
    assert missing == []
    assert told > 1500


def test_there_is_a_reason_at_every_point_of_histories_with_faults() -> None:
    for seed in range(SEEDS):
        with quiet():
            world = live(seed)
        assert world.problems == []
        assert unanswered(world)[1] == [], again(seed)
