"""A playbook that starts itself over and over takes one turn, and does not grow for ever: on a real stack."""


import pytest

from services.scheduler import families
from tests.conformance.stand.lab import Lab, opened, rows
from tests.conformance.test_sub_playbooks import book
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
WITHIN_S = 120.0
WIDTH, LEVELS = 8, 3
DESCENDANTS = WIDTH + WIDTH**2 + WIDTH**3
PROBES = 5
MAX_BEFORE = 25  # runs of the family that end while another execution of one step goes from its begin to its end

ITSELF = book(
    "families/itself",
    f"""
    - step: start
      loop:
        in: "{{{{ range({WIDTH} if workload.levels else 0) | list }}}}"
        iterator: n
        spec: {{mode: parallel, max_in_flight: {WIDTH}}}
      tool:
        kind: playbook
        path: families/itself
        mode: detached
        payload: {{levels: "{{{{ workload.levels - 1 }}}}"}}
      next: {{arcs: [{{step: work}}]}}
    - step: work
      tool: {{kind: noop}}
    """,
    f"{{levels: {LEVELS}}}",
)
OTHER = book("families/other", "- step: start\n  tool: {kind: noop}\n")


DURING = """
SELECT probe.execution_id, count(event.event_id) FROM noetl.execution probe LEFT JOIN noetl.event event
ON event.execution_id <> probe.execution_id AND event.event_type IN ('step.done', 'loop.iteration.done')
AND event.ts BETWEEN probe.started_at AND probe.finished_at
WHERE probe.path = 'families/other' GROUP BY probe.execution_id
"""


async def counted(lab: Lab, where: str) -> int:
    query = f"SELECT count(*) FROM noetl.execution WHERE parent_id IS NOT NULL AND {where}"
    return int((await rows(lab.stack.dsn(), query))[0][0])


async def projected(lab: Lab, count: int, where: str) -> None:
    await until(lambda: counted(lab, where), f"{count} where {where}", WITHIN_S, so=lambda found: found >= count,
                every_s=0.1)


async def test_others_do_not_wait_behind_all_descendants_of_one_root() -> None:
    async with opened(slots=4) as lab:
        for source in (ITSELF, OTHER):
            await lab.register(source)
        await lab.execute("families/itself")
        await projected(lab, DESCENDANTS // 4, "true")
        for _ in range(PROBES):
            assert (await lab.execute("families/other")).status == "completed"
        await projected(lab, DESCENDANTS, "status = 'completed'")
        before = sorted(count for _, count in await rows(lab.stack.dsn(), DURING))
        assert len(before) == PROBES
        assert before[PROBES // 2] < MAX_BEFORE, before


async def test_a_family_that_is_too_large_gets_no_more_children(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "MAX_FAMILY", 10)
    await lab.register(OTHER)
    workflow = """
    - step: start
      loop: {in: "{{ range(20) | list }}", iterator: n, spec: {mode: parallel}}
      tool: {kind: playbook, path: families/other}
    """
    ran = await lab.run(book("families/wide", workflow))
    assert (ran.status, ran.error["kind"]) == ("failed", "playbook")
    refused = [ended["error"] for ended in ran.of("child.ended", status="failed")]
    assert refused
    assert {error["kind"] for error in refused} == {"limit"}
    assert "does families/other start itself?" in refused[0]["message"]
    assert (await lab.execute("families/other")).status == "completed"
