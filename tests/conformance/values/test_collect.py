"""`collect` (FX §6.1) at the size of real pages: what it costs in the log, and every way to read what was collected."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from services.cli.executions.result_output import whole_ctx
from shared.bus import topology
from shared.events import subjects
from tests.conformance.stand.lab import Lab, Ran, playbook

pytestmark = pytest.mark.asyncio(loop_scope="module")

ITEM = "x" * 190  # with its key and number about 0.2 KB in a page
PAGE_ITEMS = 100


class Pages:
    """A loopback site with so many pages of about 20 KB each; `sent` counts the bytes of those it gave."""

    def __init__(self) -> None:
        self.last, self.sent = 0, 0
        app = web.Application()
        app.router.add_get("/items", self._items)
        self.server = TestServer(app, host="127.0.0.1")

    @property
    def url(self) -> str:
        return str(self.server.make_url("")).rstrip("/")

    async def _items(self, request: web.Request) -> web.Response:
        page = int(request.query["page"])
        items = [{"n": page * PAGE_ITEMS + each, "x": ITEM} for each in range(PAGE_ITEMS)]
        answer = web.json_response({"page": page, "has_more": page < self.last, "items": items})
        self.sent += len(answer.body or b"")  # type: ignore[arg-type]  # bytes, since it was made of text
        return answer


@pytest_asyncio.fixture(loop_scope="module")
async def pages() -> AsyncIterator[Pages]:
    one = Pages()
    await one.server.start_server()
    yield one
    await one.server.close()


COLLECT = """
- step: start
  tool: {kind: http, method: GET, url: "{{ workload.url }}/items", params: {page: 1}}
  retry:
    - when: "{{ response.data.has_more }}"
      then:
        max_attempts: 2000
        next_call: {params: {page: "{{ (response.data.page | int) + 1 }}"}}
        collect: {strategy: append, path: data.items, into: pages}
  next: read
- step: read
  tool:
    kind: python
    args: {step: "{{ start }}", field: "{{ start.pages }}", bare: "{{ pages }}", kept: "{{ ctx.pages }}"}
    code: |
      def main(step, field, bare, kept):
          return {"same": step == field == bare == kept, "count": len(step),
                  "first": step[0]["n"], "last": step[-1]["n"]}
  next: {arcs: [{step: asked, when: "{{ ctx.pages | length == 20000 }}"}]}
- step: asked
  tool: {kind: noop, args: {count: "{{ pages | length }}", one: "{{ start.pages[7].n }}"}}
"""


async def written(lab: Lab, ran: Ran) -> int:
    """Bytes of the execution's records in the event stream."""
    execution_id, partitions = ran.records[0].execution_id, lab.stack.options.partitions
    partition = subjects.partition_of(execution_id, partitions)
    mine = f"{subjects.EVENTS}.{partition}.{execution_id}.>"
    return sum(len(found.data) for found in await lab.bus.read(topology.events_stream(partition), [mine]))


async def test_fx_6_pages_cost_the_log_their_own_size_and_are_read_by_every_name(lab: Lab, pages: Pages) -> None:
    pages.last, pages.sent = 200, 0
    ran = await lab.run(playbook(COLLECT), {"url": pages.url})
    assert ran.status == "completed", ran.error
    read = ran.of("step.done")[1]
    assert read["result"]["value"] == {"same": True, "count": 200 * PAGE_ITEMS, "first": 100, "last": 20_099}
    assert ran.result() == {"count": 20_000, "one": 107}
    assert list(ran.summary.ctx["pages"]) == ["$stored"]
    assert len((await whole_ctx(lab.bus, ran.summary.ctx))["pages"]) == 20_000
    assert pages.sent > 200 * 20_000
    assert await written(lab, ran) < 1.2 * pages.sent
