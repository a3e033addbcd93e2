"""Ten steps in a row that pass a value of 1 KB to 1 MB on, and chains with 1, 4 and 16 workers."""

from collections.abc import Sequence

from benchmarks.sizes.load import Load

STEPS = 10


async def payloads(load: Load, sizes: Sequence[int]) -> None:
    for size in (sizes[0], *sizes):  # the first one warms
        count = max(2, min(20, 2_000_000 // size))
        cost = await load.run(
            "bench/payload", {"n": STEPS - 1, "size": size}, executions=count, units=count * STEPS, steps=STEPS + 1,
            result={"length": size},
        )  # fmt: skip
        print(cost.line(f"{size:,} bytes from step to step"), flush=True)


async def many(load: Load, workers: int, executions: int = 200) -> None:
    for title in ("warm", f"{workers} workers, {executions} at once"):
        cost = await load.run(
            "bench/chain", {}, executions=executions, units=executions * STEPS, steps=STEPS, at_once=True
        )
        if title != "warm":
            print(cost.line(title), flush=True)
