"""A run that is stopped takes no command of another run with it."""

import msgspec
import pytest

from shared.bus.jetstream import JetStreamBus
from shared.events import subjects
from shared.events.request import Control
from tests.chaos.driving import pages
from tests.chaos.driving.log import Log, check, start
from tests.chaos.driving.support import ONE, Cluster, register
from tests.support.suite.long import long

SIZES = ONE
AGAIN_S = 45.0  # the lease, and a busy machine

BRANCH = b"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: chaos-branch, path: chaos/branch }
workload: { api_url: "", quick_url: "" }
workflow:
  - step: start
    next: { spec: { mode: inclusive }, arcs: [{ step: breaks }, { step: slow }] }
  - step: slow
    tool: { kind: http, method: GET, url: "{{ workload.api_url }}", params: { book: slow, page: "1" } }
  - step: breaks
    tool:
      - { name: pause, kind: http, method: GET, url: "{{ workload.quick_url }}", params: { book: red, page: "1" } }
      - { name: fail, kind: http, method: GET, url: "http://127.0.0.1:9/" }
"""

LOOP = b"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: chaos-fail-fast, path: chaos/fail-fast }
workload: { api_url: "", quick_url: "" }
workflow:
  - step: start
    loop: { in: [slow, quick], iterator: pace, spec: { mode: parallel, max_in_flight: 2 } }
    tool:
      - { name: pause, kind: http, method: GET, params: { book: red, page: "1" },
          url: "{{ workload.api_url if iter.pace == 'slow' else workload.quick_url }}" }
      - { name: fail, kind: http, method: GET, url: "http://127.0.0.1:9/" }
"""


@pytest.mark.parametrize("how", ["cancelled", long("failed"), long("failed fast")])
async def test_a_run_whose_neighbour_was_stopped_comes_again_after_its_worker_died(
    cluster: Cluster, bus: JetStreamBus, how: str
) -> None:
    """One worker holds A, B and C; B is stopped, C ends, the worker is killed."""
    for source in (BRANCH, LOOP):
        await register(bus, source)
    tag = how.replace(" ", "-")
    a, b, c = (f"{tag}-{name}" for name in "abc")
    log = await Log.open(bus)
    async with (
        pages.library(a, ["red"], pages=40, delay_s=0.5) as long,
        pages.library(b, ["red"], pages=1, delay_s=60.0) as slow,
        pages.library(b, ["red"], pages=1, delay_s=2.0) as quick,
        pages.library(c, ["red"], pages=12, delay_s=0.5) as short,
    ):
        await start(bus, "chaos/slow", {a: long.payload})
        await log.until(lambda _: bool(long.asked), "A is held")
        await start(bus, {"cancelled": "chaos/slow", "failed": "chaos/branch"}.get(how, "chaos/fail-fast"),
                    {b: {**slow.payload, "quick_url": quick.url}})
        await log.until(lambda _: bool(slow.asked), "B is held")
        await start(bus, "chaos/slow", {c: short.payload})
        await log.until(lambda _: bool(short.asked), "C is held")
        if how == "cancelled":
            await bus.append(subjects.CANCEL, msgspec.json.encode(Control(b, by="test")))
        await log.until_over([b])
        assert c not in log.ends, "C has to end after B"
        await log.until_over([c])
        assert a not in log.ends, "A has to be held still"
        await cluster.kill("worker-g")
        await cluster.start_again("worker-g")
        await log.until_over([a], AGAIN_S)
    await check(log, [a, c])
