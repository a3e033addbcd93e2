"""`python -m benchmarks.collect`: one step that collects pages (FX §6.1). All must be there under each of their names;
what is measured is what a page costs: bytes in the log, bytes beside it, time, and the worker's memory."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import uvloop
from aiohttp import web

from benchmarks.driver import Driver
from benchmarks.engine import ENDS
from benchmarks.loops import PARTITIONS, SUBJECTS, Peak
from benchmarks.stack import Stack
from shared.bus import jetstream, topology
from shared.bus.ports import Bus
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import readable

ITEMS = 100  # of a page


class Site:
    """So many pages of so many bytes; `sent` counts the bytes it gave."""

    def __init__(self, pages: int, size: int) -> None:
        self.pages, self.sent = pages, 0
        self._text = "x" * max(0, size // ITEMS - len('{"n": 1000000, "x": ""}, '))

    async def page(self, request: web.Request) -> web.Response:
        page = int(request.query["page"])
        items = [{"n": page * ITEMS + each, "x": self._text} for each in range(ITEMS)]
        data = msgspec.json.encode({"page": page, "has_more": page < self.pages, "items": items})
        self.sent += len(data)
        return web.Response(body=data, content_type="application/json")


@asynccontextmanager
async def served(site: Site) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/pages", site.page)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}/pages"
    finally:
        await runner.cleanup()


async def bench(pages: int, size: int) -> None:
    site, execution_id = Site(pages, size), f"collect-{pages}"
    async with served(site) as url, Stack("default", {}) as stack:
        driver = await Driver.open(stack.admin, SUBJECTS, ENDS)
        peak = Peak(stack.engine.pids())
        watch = asyncio.create_task(peak.watch())
        request = {"path": "bench/collect", "payload": {"url": url}, "execution_id": execution_id}
        run = await driver.burst({execution_id: (subjects.EXECUTE, msgspec.json.encode(request))})
        watch.cancel()
        await driver.close()
        bus = await jetstream.connect(stack.admin.url, user=stack.admin.user, password=stack.admin.password)
        try:
            logged, stored = await check(bus, execution_id, pages * ITEMS)
        finally:
            await bus.close()
    print(f"{pages:,} pages, {site.sent:,} bytes: {run.wall_s:.1f} s, {run.wall_s / pages * 1e3:.1f} ms a page")
    print(f"in the log: {logged:,} bytes, {logged / site.sent:.2f} times the pages; "
          f"beside it: {stored:,} bytes, {stored / site.sent:.2f} times")
    print("memory: " + ", ".join(f"{name} {mb:.0f} MB" for name, mb in peak.mb.items()))


async def check(bus: Bus, execution_id: str, items: int) -> tuple[int, int]:
    """Bytes of the events and of the stored values of an execution that ended as it should."""
    partition = subjects.partition_of(execution_id, PARTITIONS)
    mine = f"{subjects.EVENTS}.{partition}.{execution_id}.>"
    messages = await bus.read(topology.events_stream(partition), [mine])
    ends = [event for _, record in readable(messages, PARTITIONS) for event in record.events
            if isinstance(event, ev.PlaybookProcessed)]
    wanted = {"step": items, "field": items, "bare": items}
    if [end.status for end in ends] != ["completed"] or ends[0].result is None or ends[0].result.value != wanted:
        sys.exit(f"the execution ended with {[(end.status, end.result, end.error) for end in ends]}")
    stored = await bus.read(topology.RESULTS, [f"{subjects.RESULTS}.{execution_id}.>"])
    return sum(len(each.data) for each in messages), sum(len(each.data) for each in stored)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.collect", description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000)
    parser.add_argument("--bytes", type=int, default=20_000, help="of one page")
    args = parser.parse_args()
    uvloop.run(bench(args.pages, args.bytes))


if __name__ == "__main__":
    main()
