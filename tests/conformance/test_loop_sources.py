"""Local loops and loops over claimed rows, on a real stack with a real PostgreSQL; and reruns of loops that failed."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from msgspec.structs import replace

from services.worker import service as worker
from shared.bus.permissions import worker_user
from shared.events import model as ev
from shared.runtime.service.clock import SystemClock
from shared.runtime.service.main import connect
from tests.conformance.stand.lab import Lab, Ran, playbook, rows
from tests.conformance.test_control import Running
from tests.conformance.test_rerun import rerun
from tests.support.servers.postgres import execute

pytestmark = pytest.mark.asyncio(loop_scope="module")
ROWS = 500

LOCAL = """
- step: start
  loop:
    in: "{{ range(60) | list }}"
    iterator: n
    spec: {mode: parallel, max_in_flight: 8, policy: {exec: local}}
  tool:
    - {name: double, kind: python, args: {n: "{{ iter.n }}"}, code: "result = n * 2"}
    - name: note
      kind: noop
      spec: {policy: {rules: [{else: {then: {do: continue, result: double, set_ctx: {sum: {$add: "{{ double }}"}}}}}]}}
  next: {arcs: [{step: after}]}
- step: after
  tool: {kind: noop, args: {v: "{{ start.results }}", sum: "{{ ctx.sum }}"}}
"""

CLAIM = """
- step: start
  loop:
    cursor:
      kind: postgres
      auth: pg_k8s
      frame: 40
      claim: >-
        UPDATE jobs SET claimed = {{ claim.id }} WHERE id IN (SELECT id FROM jobs WHERE claimed IS NULL AND
        state = {{ workload.state }} ORDER BY id LIMIT {{ claim.size }} FOR UPDATE SKIP LOCKED) RETURNING id
    iterator: row
    spec: {mode: parallel, max_in_flight: 10}
  tool:
    kind: postgres
    auth: pg_k8s
    command: "INSERT INTO done VALUES ({{ row.id }}, {{ iter.index }}) RETURNING job"
    spec: {policy: {rules: [{when: "{{ outcome.error }}", then: {do: fail}}, {else: {then: {do: continue}}}]}}
  next: {arcs: [{step: after}]}
- step: after
  tool: {kind: noop, args: {count: "{{ start.count }}", failed: "{{ start.failed }}"}}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def second(lab: Lab) -> AsyncIterator[str]:
    """A second worker of the pool."""
    settings = replace(lab.stack.settings_for(worker_user("default")), instance="second", slots=8)
    bus, stop, ready = await connect("second", settings), asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(worker.serve(bus, settings, clock=SystemClock(), stop=stop, ready=ready.set))
    await ready.wait()
    yield "second"
    stop.set()
    await task
    await bus.close()


async def _jobs(lab: Lab, count: int = ROWS) -> str:
    dsn = await lab.database()
    await execute(dsn, "CREATE TABLE jobs (id int PRIMARY KEY, state text DEFAULT 'new', claimed text)")
    await execute(dsn, "CREATE TABLE done (job int, index int)")
    await execute(dsn, f"INSERT INTO jobs (id) SELECT generate_series(1, {count})")
    return dsn


def _workers(ran: Ran) -> set[str]:
    return {record.lease.worker for record in ran.records if record.lease is not None}


@pytest.mark.usefixtures("second")
async def test_all_iterations_of_a_local_loop_run_on_one_worker_under_one_command(lab: Lab) -> None:
    ran = await lab.run(playbook(LOCAL))
    assert ran.status == "completed", ran.error
    assert ran.result() == {"v": [2 * n for n in range(60)], "sum": 60 * 59}
    leases = {(record.lease.worker, record.lease.epoch) for record in ran.records
              if record.lease is not None and record.lease.run_id == "start:1"}
    assert len(leases) == 1
    assert ran.of("loop.iteration.started") == [{"run_id": "start:1", "first": 0, "count": 60}]


async def test_a_local_loop_in_order_sees_what_was_written_before_and_stops_by_itself(lab: Lab) -> None:
    workflow = """
    - step: start
      loop:
        in: "{{ workload.numbers }}"
        iterator: n
        spec: {policy: {exec: local}, stop_when: "{{ last >= workload.enough }}"}
      tool:
        kind: python
        args: {n: "{{ iter.n }}", sum: "{{ ctx.sum | default(0) }}"}
        code: "result = sum + n"
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {sum: "{{ outcome.result }}"}}}}]}}
      next: {arcs: [{step: after, args: {stopped: "{{ event.payload.stopped }}"}}]}
    - step: after
      tool: {kind: noop, args: {v: "{{ start.results }}", stopped: "{{ args.stopped }}"}}
    """
    ran = await lab.run(playbook(workflow, workload="{numbers: [1, 2, 3, 4, 5], enough: 6}"))
    assert ran.status == "completed", ran.error
    assert ran.result() == {"v": [1, 3, 6], "stopped": True}
    assert ran.of("loop.halted") == [{"next": 3, "index": 2}]


async def test_a_failed_iteration_of_a_local_loop_stops_those_beside_it(lab: Lab) -> None:
    workflow = """
    - step: start
      loop: {in: [5, 0, 5, 5], iterator: n, spec: {mode: parallel, max_in_flight: 3, policy: {exec: local}}}
      tool:
        kind: python
        args: {n: "{{ iter.n }}"}
        code: |
          import time
          time.sleep(n * 20)
          result = 1 // n
      next: {arcs: [{step: rescue, when: "{{ event.name == 'step.failed' }}"}]}
    - step: rescue
      tool: {kind: noop, args: {why: "{{ workload.x | default('saved') }}"}}
    """
    ran = await lab.run(playbook(workflow))
    assert ran.status == "completed", ran.error
    assert ran.result() == {"why": "saved"}
    begun = {record.lease.index for record in ran.records
             if record.lease is not None and record.lease.run_id == "start:1"}
    assert 3 not in begun


@pytest.mark.usefixtures("second")
async def test_two_workers_claim_every_row_of_a_table_once(lab: Lab) -> None:
    """Two executions of the same loop, and one table."""
    dsn = await _jobs(lab)
    entry = await lab.register(playbook(CLAIM, workload="{state: new}"))
    both = await asyncio.gather(*(lab.execute(entry.path, entry.version) for _ in range(2)))
    for ran in both:
        assert ran.status == "completed", ran.error
        assert ran.of("loop.frame.claimed")[-1] == {}
    assert sum(ran.result()["count"] for ran in both) == ROWS
    assert await rows(dsn, "SELECT count(*), count(DISTINCT job) FROM done") == [(ROWS, ROWS)]
    ids = {ran.summary.execution_id for ran in both}
    claims = await rows(dsn, "SELECT claimed, count(*) FROM jobs GROUP BY claimed")
    assert {claim.split("/")[0] for claim, _ in claims} == ids
    assert max(count for _, count in claims) <= 40
    assert len(_workers(both[0]) | _workers(both[1])) == 2


@pytest.mark.parametrize(("claim", "kind", "says"), [
    ("SELECT nothing FROM jobs", "postgres", "does not exist"),
    ("UPDATE jobs SET claimed = 'x'", "loop", "add RETURNING"),
    ("UPDATE jobs SET claimed = 'x' RETURNING id", "limit", "LIMIT {{ claim.size }}"),
    ("COMMIT; SELECT 1", "config", "one transaction of its own"),
])
async def test_a_claim_that_cannot_be_claims_nothing_and_fails_the_step(
    lab: Lab, claim: str, kind: str, says: str
) -> None:
    dsn = await _jobs(lab, 50)
    workflow = f"""
    - step: start
      loop: {{cursor: {{kind: postgres, auth: pg_k8s, claim: "{claim}", frame: 40}}, iterator: row}}
      tool: {{kind: noop}}
    """
    ran = await lab.run(playbook(workflow))
    assert (ran.status, ran.error["kind"], ran.error["frame"]) == ("failed", kind, 0)
    assert says in ran.error["message"]
    assert await rows(dsn, "SELECT count(*) FROM jobs WHERE claimed IS NOT NULL") == [(0,)]


async def test_a_rerun_of_a_cursor_loop_takes_its_rows_over_and_claims_the_rest(lab: Lab) -> None:
    dsn = await _jobs(lab, 60)
    await execute(dsn, "ALTER TABLE done ADD CONSTRAINT gate CHECK (job <> 45)")
    ran = await lab.run(playbook(CLAIM, workload="{state: new}"))
    assert (ran.status, ran.error["code"]) == ("failed", "23514")
    await execute(dsn, "ALTER TABLE done DROP CONSTRAINT gate")
    summary = await (await rerun(lab, ran)).over()
    assert (summary.status, summary.as_dict()["result"]) == ("completed", {"count": 60, "failed": 0})
    assert await rows(dsn, "SELECT count(DISTINCT job) FROM done") == [(60,)]
    assert await rows(dsn, "SELECT count(*) FROM jobs WHERE claimed IS NULL") == [(0,)]


@pytest.mark.parametrize("where", ["distributed", "local"])
async def test_a_rerun_of_a_large_loop_runs_only_what_did_not_succeed(lab: Lab, where: str) -> None:
    dsn = await lab.database()
    await execute(dsn, "CREATE TABLE calls (n int)")
    await execute(dsn, "CREATE TABLE gate AS SELECT 0 AS open")
    workflow = f"""
    - step: start
      loop:
        in: "{{{{ range(30) | list }}}}"
        iterator: n
        spec: {{mode: sequential, policy: {{exec: {where}}}}}
      tool:
        - {{name: note, kind: postgres, auth: pg_k8s, command: "INSERT INTO calls VALUES ({{{{ iter.n }}}})"}}
        - name: check
          kind: postgres
          auth: pg_k8s
          command: "SELECT 1 / (CASE WHEN {{{{ iter.n }}}} = 17 THEN (SELECT open FROM gate) ELSE 1 END) AS fine"
        - {{name: big, kind: python, args: {{n: "{{{{ iter.n }}}}"}}, code: "result = [n] * 70000"}}
      next: {{arcs: [{{step: after}}]}}
    - step: after
      tool: {{kind: noop, args: {{v: "{{{{ start.results | map('first') | list }}}}", count: "{{{{ start.count }}}}"}}}}
    """
    ran = await lab.run(playbook(workflow))
    assert ran.status == "failed"
    done = {record.lease.index for record in ran.records if record.lease is not None
            and any(isinstance(event, ev.IterationDone) for event in record.events)}
    before = dict(await rows(dsn, "SELECT n, count(*) FROM calls GROUP BY n"))
    await execute(dsn, "UPDATE gate SET open = 1")
    run: Running = await rerun(lab, ran)
    summary = await run.over()
    assert (summary.status, summary.as_dict()["result"]) == ("completed", {"v": list(range(30)), "count": 30})
    after = dict(await rows(dsn, "SELECT n, count(*) FROM calls GROUP BY n"))
    (started,) = [event for record in await run.records() for event in record.events
                  if isinstance(event, ev.LoopStarted)]
    assert started.taken is not None
    assert started.taken.of == ran.summary.execution_id
    assert (started.taken.done, done) == (17, set(range(17)))
    assert {n for n in range(30) if after[n] > before.get(n, 0)} == set(range(17, 30))
