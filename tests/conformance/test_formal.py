"""The examples of FS and FX as they are written, on a real stack: lowered, run to their end, nothing lost.
What they leave open (addresses, credentials, tables) is filled in."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from shared.tools.quantum.local import LocalProvider
from shared.tools.quantum.provider import State
from shared.tools.quantum.tool import PROVIDERS
from tests.conformance.stand.lab import Lab, playbook, rows
from tests.support.servers.postgres import execute

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Site:
    """A loopback site: pages of numbers, a mailbox, and one address that fails."""

    def __init__(self) -> None:
        self.mails: list[Any] = []
        self.pages: list[int] = []
        self.busy = 0
        app = web.Application()
        app.router.add_get("/items", self._items)
        app.router.add_get("/broken", self._broken)
        app.router.add_post("/email", self._mail)
        self.server = TestServer(app, host="127.0.0.1")

    @property
    def url(self) -> str:
        return str(self.server.make_url("")).rstrip("/")

    async def _items(self, request: web.Request) -> web.Response:
        page = int(request.query.get("page", "1"))
        self.pages.append(page)
        if self.busy and page == 2:
            self.busy -= 1
            return web.json_response({}, status=503)
        return web.json_response({"page": page, "has_more": page < 3, "items": [page * 10, page * 10 + 1]})

    async def _broken(self, _request: web.Request) -> web.Response:
        return web.json_response({"problem": "gone"}, status=404)

    async def _mail(self, request: web.Request) -> web.Response:
        self.mails.append(await request.json())
        return web.json_response({"sent": True})


@pytest_asyncio.fixture(loop_scope="module")
async def site() -> AsyncIterator[Site]:
    one = Site()
    await one.server.start_server()
    yield one
    await one.server.close()


ONBOARDING = """
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: user_onboarding
  path: workflows/onboarding/user
workload:
  api_url: "https://api.example.com"
  notification_enabled: true
workbook:
  - name: send_welcome_email
    tool:
      kind: http
      method: POST
      url: "{{ workload.api_url }}/email"
      body:
        template: "welcome"
        to: "{{ email }}"
workflow:
  - step: start
    tool:
      kind: python
      auth: {}
      libs: {}
      args: {}
      code: |
        result = {"status": "initialized"}
    case:
      - when: "{{ event.name == 'step.exit' }}"
        then:
          next:
            - step: fetch_user
  - step: fetch_user
    tool:
      kind: postgres
      auth: pg_k8s
      query: "SELECT * FROM users WHERE id = {{ workload.user_id }}"
    vars:
      user_email: "{{ result[0].email }}"
      user_name: "{{ result[0].name }}"
    case:
      - when: "{{ event.name == 'step.exit' and response is defined }}"
        then:
          next:
            - step: send_welcome
  - step: send_welcome
    tool:
      kind: workbook
      name: send_welcome_email
      args:
        email: "{{ vars.user_email }}"
    case:
      - when: "{{ event.name == 'step.exit' }}"
        then:
          next:
            - step: end
  - step: end
    tool:
      kind: python
      auth: {}
      libs: {}
      args: {}
      code: |
        result = {"status": "completed", "message": "User onboarding complete"}
"""


async def test_fs_appendix_a_onboards_a_user(lab: Lab, site: Site) -> None:
    dsn = await lab.database()
    await execute(dsn, "CREATE TABLE users (id int, email text, name text); INSERT INTO users VALUES (7, 'a@b', 'Ann')")
    ran = await lab.run(ONBOARDING, {"api_url": site.url, "user_id": 7})
    assert (ran.status, list(ran.summary.steps)) == ("completed", ["start", "fetch_user", "send_welcome", "end"])
    assert site.mails == [{"template": "welcome", "to": "a@b"}]
    assert ran.result() == {"status": "completed", "message": "User onboarding complete"}


RETRY = """
- step: start
  tool: {kind: http, method: GET, url: "{{ workload.url }}/items", params: {page: 1}}
  retry:
    - when: "{{ error.status in [429, 500, 502, 503] }}"
      then:
        max_attempts: 5
        initial_delay: 0.1
        backoff_multiplier: 2.0
    - when: "{{ response.data.has_more }}"
      then:
        max_attempts: 100
        next_call:
          params:
            page: "{{ (response.data.page | int) + 1 }}"
        collect:
          strategy: append
          path: data.items
          into: pages
        sink:
          tool: { kind: postgres, auth: pg_k8s, table: raw_events }
          args: { page: "{{ page.data }}", iter: "{{ _retry.index }}" }
"""


async def test_fx_6_pages_with_retries_sinks_and_collects(lab: Lab, site: Site) -> None:
    dsn = await lab.database()
    await execute(dsn, "CREATE TABLE raw_events (page jsonb, iter int)")
    site.busy = 2
    ran = await lab.run(playbook(RETRY), {"url": site.url})
    assert (ran.status, ran.result()) == ("completed", [10, 11, 20, 21, 30, 31])
    assert site.pages == [1, 2, 2, 2, 3]
    stored = await rows(dsn, "SELECT (page->>'page')::int, iter FROM raw_events ORDER BY iter")
    assert stored == [(1, 1), (2, 2), (3, 3)]
    assert [found["attempt"] for found in ran.of("task.retried")] == [1, 2]


CASE = """
- step: start
  tool: {kind: http, method: GET, url: "{{ workload.url }}{{ workload.path }}"}
  case:
    - when: "{{ event.name == 'call.done' and response.status_code == 200 }}"
      then:
        sink:
          tool: {kind: postgres, auth: pg_k8s, table: kept}
          args: {page: "{{ result.page }}", code: "{{ this.status_code }}"}
        set: {last_page: "{{ result.page }}"}
        next:
          - step: success_handler
            args: {items: "{{ response.data.items }}"}
    - when: "{{ event.name == 'call.error' }}"
      then:
        next:
          - step: error_handler
            args: {status: "{{ error.status }}"}
  next:
    - step: default_handler
- {step: success_handler, tool: {kind: noop, args: {items: "{{ args['items'] }}", page: "{{ vars.last_page }}"}}}
- {step: error_handler, tool: {kind: noop, args: {status: "{{ args.status }}"}}}
- {step: default_handler, tool: {kind: noop}}
"""


async def test_fx_7_and_fs_8_handle_success_and_error(lab: Lab, site: Site) -> None:
    dsn = await lab.database()
    await execute(dsn, "CREATE TABLE kept (page int, code int)")
    good = await lab.run(playbook(CASE), {"url": site.url, "path": "/items"})
    bad = await lab.run(playbook(CASE), {"url": site.url, "path": "/broken"})
    assert (list(good.summary.steps), good.result()) == (["start", "success_handler"], {"items": [10, 11], "page": 1})
    assert (list(bad.summary.steps), bad.result()) == (["start", "error_handler"], {"status": 404})
    assert (good.status, bad.status) == ("completed", "completed")
    assert await rows(dsn, "SELECT * FROM kept") == [(1, 200)]


VARS = """
- step: start
  next: fetch_user
- step: fetch_user
  tool:
    kind: postgres
    auth: pg_k8s
    query: "SELECT user_id, email FROM users LIMIT 1"
  vars:
    user_id: "{{ result[0].user_id }}"
    user_email: "{{ result[0].email }}"
  next:
    - step: send_notification
- step: send_notification
  tool:
    kind: http
    method: POST
    url: "{{ workload.url }}/email"
    body:
      user_id: "{{ vars.user_id }}"
      email: "{{ vars.user_email }}"
"""


async def test_fx_8_and_fs_11_keep_vars_for_later_steps(lab: Lab, site: Site) -> None:
    dsn = await lab.database()
    await execute(dsn, "CREATE TABLE users (user_id int, email text); INSERT INTO users VALUES (3, 'c@d')")
    ran = await lab.run(playbook(VARS), {"url": site.url})
    assert (ran.status, site.mails) == ("completed", [{"user_id": 3, "email": "c@d"}])
    assert [found["patch"] for found in ran.of("ctx.patched")] == [{"user_id": 3, "user_email": "c@d"}]


LOOP = """
- step: start
  loop:
    in: "{{ workload.items }}"
    iterator: item
    mode: sequential
  tool:
    kind: python
    args:
      current_item: "{{ item }}"
    code: |
      print(f"Processing: {current_item}")
      result = {"processed": current_item}
  sink:
    tool: {kind: postgres, auth: pg_k8s, table: done}
    args: {item: "{{ result.processed }}", at: "{{ loop_index }}"}
  next:
    - step: aggregate
- {step: aggregate, tool: {kind: noop, args: {all: "{{ start.results }}"}}}
"""


async def test_fs_6_loops_in_order_and_stores_every_result(lab: Lab) -> None:
    dsn = await lab.database()
    await execute(dsn, "CREATE TABLE done (item int, at int)")
    ran = await lab.run(playbook(LOOP), {"items": [4, 5, 6]})
    assert (ran.status, ran.result()) == ("completed", {"all": [{"processed": 4}, {"processed": 5}, {"processed": 6}]})
    assert await rows(dsn, "SELECT * FROM done ORDER BY at") == [(4, 0), (5, 1), (6, 2)]


class Queued(LocalProvider):
    """A simulator that is busy at first: QUEUED and RUNNING come before DONE."""

    asked = 0

    async def status(self, job_id: str, auth: Mapping[str, Any] | None) -> State:
        Queued.asked += 1
        states: list[State] = ["QUEUED", "RUNNING", await super().status(job_id, auth)]
        return states[min(Queued.asked, 3) - 1]


QUANTUM = """
- {step: start, next: submit_qpu_job}
- step: submit_qpu_job
  tool:
    kind: quantum
    provider: ibm
    circuit: "{{ workload.circuit }}"
    shots: "{{ workload.shots | default(1024) }}"
  vars:
    job_id: "{{ result.job_id }}"
  next: poll_qpu_job
- step: poll_qpu_job
  tool:
    kind: quantum
    op: status
    job_id: "{{ vars.job_id }}"
  retry:
    - when: "{{ response.state in ['QUEUED','RUNNING'] }}"
      then:
        max_attempts: 120
        initial_delay: 0.05
        backoff_multiplier: 1.1
  case:
    - when: "{{ event.name == 'call.done' and response.state == 'DONE' }}"
      then:
        next:
          - step: fetch_results
- step: fetch_results
  tool:
    kind: quantum
    op: results
    job_id: "{{ vars.job_id }}"
  case:
    - when: "{{ event.name == 'step.exit' }}"
      then:
        sink:
          tool: { kind: postgres, auth: "{{ workload.pg_auth }}", table: qpu_results }
          args: { job_id: "{{ vars.job_id }}", counts: "{{ result.counts }}" }
  next: end
- step: end
"""


BELL = """OPENQASM 2.0; include "qelib1.inc";
qreg q[2]; creg c[2];
h q[0]; cx q[0], q[1]; measure q -> c;"""


async def test_fx_11_submits_polls_and_stores_a_quantum_job(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROVIDERS, "ibm", Queued)
    dsn = await lab.database()
    await execute(dsn, "CREATE TABLE qpu_results (job_id text, counts jsonb)")
    ran = await lab.run(playbook(QUANTUM), {"circuit": BELL, "pg_auth": "pg_k8s"})
    assert (ran.status, ran.error) == ("completed", {})
    assert len(ran.of("task.retried")) == 2
    ((job, counts),) = await rows(dsn, "SELECT job_id, counts FROM qpu_results")
    found = json.loads(counts)
    assert (job.startswith("ibm:"), set(found), sum(found.values())) == (True, {"00", "11"}, 1024)


async def test_a_quantum_provider_that_is_not_there_is_told(lab: Lab) -> None:
    ran = await lab.run(playbook(QUANTUM), {"circuit": BELL, "pg_auth": "pg_k8s"})
    assert (ran.status, ran.error["kind"]) == ("failed", "config")
    assert ran.error["message"].startswith("there is no quantum provider 'ibm' here; known: local.")


LARGE = """
- step: start
  tool: {kind: python, code: "result = {'text': 'x' * 400000, 'n': 7}"}
  vars: {n: "{{ result.n }}", size: "{{ result.text | length }}"}
  sink:
    tool: {kind: postgres, auth: pg_k8s, table: sizes}
    args: {n: "{{ result.n }}", size: "{{ result.text | length }}"}
  next: check
- {step: check, tool: {kind: noop, args: {size: "{{ start.text | length }}", same: "{{ vars.size }}"}}}
"""


async def test_a_large_result_passes_whatever_is_put_behind_its_task(lab: Lab) -> None:
    dsn = await lab.database()
    await execute(dsn, "CREATE TABLE sizes (n int, size int)")
    ran = await lab.run(playbook(LARGE))
    assert (ran.status, ran.result()) == ("completed", {"size": 400000, "same": 400000}), ran.error
    assert await rows(dsn, "SELECT * FROM sizes") == [(7, 400000)]
