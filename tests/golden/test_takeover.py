"""Services of today continue where an earlier version was: its log ends at some moment, its services are gone, and
every execution that had begun comes to its end by the rules it began with."""

import asyncio

import pytest

from services.cli.verify.checker import Checker
from tests.golden import files
from tests.golden.answers import executions, plant
from tests.golden.files import Line
from tests.sim.loop import EPOCH
from tests.sim.run import live_through
from tests.sim.world import PARTITIONS, World

CUTS = (0.03, 0.3)  # parts of the log's time; most executions are over soon
LATER_S = 5.0       # since the others were seen last


class Continued:
    """`begun` are the executions of a log up to a moment, `unfinished` those of them that were not over."""

    def __init__(self, log: files.Recorded, cut: float) -> None:
        ends = max(line.at for line in log.lines) / 1e9
        self.until = EPOCH + (ends - EPOCH) * cut
        self.lines = [line for line in log.lines if line.at / 1e9 <= self.until]
        self.begun = executions(self.lines)
        self.unfinished = set(self.begun) - set(executions(filter(_ends, self.lines)))
        self.wrong: list[str] = []

    async def story(self, world: World) -> None:
        plant(world.broker, self.lines)
        await asyncio.sleep(self.until - EPOCH + LATER_S)
        await world.open(1, 1, 2)
        await world.drain("by those of today")
        await world.stop_all()
        checker = Checker(world.admin, PARTITIONS, None, 0.0)
        for execution_id in self.begun:
            found = await checker.one(execution_id)
            if found is None or found[0].verdict != "verified":
                self.wrong.append(f"{execution_id}: {found and (found[0].verdict, found[0].violations)}")


def _ends(line: Line) -> bool:
    return '"playbook.processed"' in line.text


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("version", files.versions())
def test_what_an_earlier_version_began_is_ended_by_this_one(version: str, cut: float) -> None:
    continued = Continued(files.recorded(version, "peace"), cut)
    world = live_through(continued.story)
    assert world.problems == []
    assert continued.wrong == []
    assert len(continued.unfinished) >= 2
