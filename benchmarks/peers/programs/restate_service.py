"""Restate: a service whose handlers make each step durable with `ctx.run`; served by hypercorn or granian."""

from typing import Any

import restate
from harness import Pages, count

work = restate.Service("Work")
pages = Pages()


async def step(n: int) -> int:
    count()
    return n


@work.handler()
async def chain(ctx: restate.Context, steps: int) -> int:
    done = 0
    for n in range(steps):
        done += await ctx.run_typed(f"s{n}", step, n=n)
    return done


@work.handler()
async def loop(ctx: restate.Context, items: int) -> int:
    """All at once in one journal."""
    runs = [ctx.run_typed(f"i{n}", step, n=n) for n in range(items)]
    await restate.gather(*runs)
    return sum([await run for run in runs])


@work.handler()
async def one(ctx: restate.Context, n: int) -> int:
    return await ctx.run_typed("one", step, n=n)


@work.handler()
async def calls(ctx: restate.Context, items: int) -> int:
    """All at once, each an invocation of its own."""
    made = [ctx.service_call(one, arg=n) for n in range(items)]
    await restate.gather(*made)
    return sum([await call for call in made])


@work.handler()
async def read(ctx: restate.Context, job: dict[str, Any]) -> int:
    """Two steps a page."""
    page, more = 0, True
    while more:
        page += 1
        found = await ctx.run_typed("fetch", pages.fetch, url=job["url"], page=page)
        await ctx.run_typed("store", pages.store, run=job["run"], page=page, items=found["items"])
        more = found["more"]
    return page


@work.handler()
async def read_in_one(ctx: restate.Context, job: dict[str, Any]) -> int:
    """One step a page: after a crash between the two, the page is fetched and stored again."""

    async def both(page: int) -> bool:
        found = await pages.fetch(job["url"], page)
        await pages.store(job["run"], page, found["items"])
        return bool(found["more"])

    page, more = 0, True
    while more:
        page += 1
        more = await ctx.run_typed("page", both, page=page)
    return page


app = restate.app(services=[work])
