"""Chains of 10 to 10,000 steps by a cycle, loops of 1 to 100,000 iterations with results of 1 KB: what one step costs
must not depend on how many there are."""

from collections.abc import Sequence

from benchmarks.sizes.load import Cost, Load

MOST = 1.2  # times what the cheapest smaller size costs a step
RESULT = "x" * 1000
LEAST_UNITS = 1_000  # of one measurement: CPU is counted in ticks of 10 ms


async def chains(load: Load, sizes: Sequence[int]) -> dict[int, Cost]:
    """One execution at a time, at every size."""
    found = {}
    await load.run("bench/cycle", {"n": 100}, executions=10, units=1000, steps=100)  # warm
    for size in sizes:
        count = max(1, LEAST_UNITS // size)
        found[size] = await load.run("bench/cycle", {"n": size}, executions=count, units=count * size, steps=size)
        print(found[size].line(f"chain of {size:,}, {count} of them"), flush=True)
    return found


async def loops(load: Load, sizes: Sequence[int]) -> dict[int, Cost]:
    found = {}
    for size in (1000, *sizes):  # the first one warms
        count = max(1, LEAST_UNITS // size)
        found[size] = await load.run(
            "bench/carried", {"n": size, "text": RESULT}, executions=count, units=count * size, steps=2,
            result={"count": size},
        )  # fmt: skip
        print(found[size].line(f"loop of {size:,}, {count} of them"), flush=True)
    return found


def grown(found: dict[int, Cost]) -> str:
    """What is wrong with the largest size; nothing if it is flat."""
    costs = {size: cost.cpu_us for size, cost in sorted(found.items())}
    largest = max(costs)
    least = min(costs[size] for size in costs if size != largest)
    ratio = costs[largest] / least
    verdict = "flat" if ratio <= MOST else "NOT FLAT"
    return f"{verdict}: a step of {largest:,} costs {ratio:.2f} times the cheapest of a smaller size (at most {MOST})"
