"""The words of today on real services: `output`, results of single tasks, the clock, forms, rows from a cursor."""

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from shared.events.stamp import seconds
from tests.conformance.stand.lab import Lab, playbook, rows
from tests.support.servers.postgres import execute

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORDS = """
- step: start
  input: {who: "{{ workload.who }}"}
  tool:
    - name: ask
      kind: http
      method: POST
      url: "{{ workload.url }}ask"
      form: {name: "{{ who }}"}
      retry_on_status: [503]
      retry: {max_attempts: 3, backoff: fixed, delay: 0.01}
      set: {iter.first: "{{ output.data.items[0] }}", ctx.code: "{{ output.http.status }}"}
    - name: count
      kind: python
      spec: {input: {items: "{{ output.items }}", body: "{{ output.body.items | length }}"}}
      code: "result = {'n': len(args['items']), 'same': args.get('body'), 'id': args['items'][0]}"
  next:
    spec: {on_no_match: fail}
    arcs: [{step: store, when: "{{ output.n == 2 and output.status == 'ok' }}", set: {ctx.n: "{{ output.n }}"}}]
- step: store
  tool:
    - name: put
      kind: postgres
      auth: pg_k8s
      command: "INSERT INTO kept VALUES ({{ result.n }}, {{ job.execution_id }}, {{ now() }}::timestamptz) RETURNING n"
    - {name: check, kind: noop, args: {n: "{{ output.rows[0].n }}", count: "{{ output.data.row_count }}"}}
    - {name: between, kind: noop}
    - name: again
      kind: shell
      cmd: echo {{ ctx.n }}
      spec:
        policy:
          rules:
            - when: "{{ store.exit_code == 0 and ctx.tries | default(0) < 1 }}"
              then: {do: jump, to: previous, set: {ctx.tries: 1}}
            - else: {do: continue}
  next: {arcs: [{step: last, when: true}]}
- step: last
  tool:
    kind: noop
    args:
      asked: "{{ start.results.ask.data.items }}"
      put: "{{ store.results.put.rows }}"
      said: "{{ result.stdout }}"
      code: "{{ ctx.code }}"
"""


async def test_the_words_of_today_run_as_they_are_written(lab: Lab) -> None:
    dsn = await lab.database()
    await execute(dsn, "CREATE TABLE kept (n int, execution text, at timestamptz)")
    asked: list[str] = []

    async def ask(request: web.Request) -> web.Response:
        asked.append(await request.text())
        return web.json_response({"items": [7, 8]}, status=503 if len(asked) == 1 else 200)

    app = web.Application()
    app.router.add_post("/ask", ask)
    async with TestServer(app, host="127.0.0.1") as server:
        ran = await lab.run(playbook(WORDS, workload=f"{{url: '{server.make_url('/')}', who: ann}}"))
    assert (ran.status, ran.error) == ("completed", {})
    assert asked == ["name=ann", "name=ann"]
    assert ran.result() == {"asked": [7, 8], "put": [{"n": 2}], "said": "2\n", "code": 200}
    ((n, execution, _),) = await rows(dsn, "SELECT * FROM kept")
    assert (n, execution) == (2, ran.records[0].execution_id)


CLOCK = """
- step: start
  spec: {policy: {admit: {rules: [{when: "{{ now() > '2000' }}", then: {allow: true}}]}}}
  tool: {kind: noop, args: {at: "{{ now() }}"}, set: {ctx.ruled: "{{ now() }}"}}
  next: {arcs: [{step: end, args: {routed: "{{ now() }}"}}]}
- step: end
  tool:
    kind: noop
    args: {began: "{{ began }}", at: "{{ start.at }}", ruled: "{{ ctx.ruled }}", routed: "{{ routed }}"}
"""


async def test_now_is_the_time_of_each_decision(lab: Lab) -> None:
    """Verified with all that ran here: the times of the router's decisions follow from the log."""
    ran = await lab.run(playbook(CLOCK, workload="{began: '{{ now() }}'}"))
    times = [seconds(ran.result()[name]) for name in ("began", "at", "ruled", "routed")]
    assert times == sorted(times)
    stamps = {record.ts for record in ran.records}
    assert {ran.result()["began"], ran.result()["routed"]} <= stamps


CURSOR = """
- step: start
  loop:
    cursor:
      kind: postgres
      auth: pg_k8s
      claim: UPDATE jobs SET taken = true WHERE id IN (SELECT id FROM jobs WHERE NOT taken ORDER BY id
             LIMIT {{ claim.size }}) RETURNING id
    iterator: row
    spec: {mode: cursor, frame: 2, max_in_flight: "{{ workload.most }}"}
  tool: {kind: noop, args: {id: "{{ row.id }}"}, set: {ctx.sum: {$add: "{{ output.id }}"}}}
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: noop, args: {sum: "{{ ctx.sum }}", count: "{{ start.count }}"}}}
"""


async def test_a_loop_in_mode_cursor_claims_its_rows(lab: Lab) -> None:
    dsn = await lab.database()
    await execute(dsn, "CREATE TABLE jobs AS SELECT id, false AS taken FROM generate_series(1, 5) AS id")
    ran = await lab.run(playbook(CURSOR, workload="{most: 2}"))
    assert (ran.status, ran.result()) == ("completed", {"sum": 15, "count": 5})
    assert len(ran.of("loop.frame.claimed")) >= 3


CYCLE = """
- step: start
  tool: {kind: noop, args: {n: "{{ ctx.n | default(0) + 1 }}"}, set: {ctx.n: "{{ output.n }}"}}
  output: {output_select: [n]}
  next: {arcs: [{step: start, when: "{{ output.n < 3 }}"}, {step: end}]}
- {step: end, tool: {kind: python, input: {n: "{{ result.n }}"}, code: "result = args['n']"}}
"""


async def test_a_graph_with_a_cycle_runs_to_its_end(lab: Lab) -> None:
    ran = await lab.run(playbook(CYCLE))
    assert (ran.status, ran.result()) == ("completed", 3)
    assert [run["run_id"] for run in ran.of("step.scheduled")] == ["start:1", "start:2", "start:3", "end:1"]
