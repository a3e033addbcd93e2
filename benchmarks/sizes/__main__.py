"""`python -m benchmarks.sizes`: what a step costs at every size."""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.profiles import write_summary
from benchmarks.sizes import growth, payloads
from benchmarks.sizes.load import HEAD, Load
from benchmarks.stack import SERVICES, Stack

WHAT = ("chains", "loops", "payloads", "workers")


async def on_a_stack(measure: Callable[[Load], Any], workers: int = 1, profiled: list[str] | None = None) -> Any:
    files = {name: Path(f"profile-sizes-{name}.prof") for name in profiled or ()}
    async with Stack("default", files, workers) as stack:
        load = await Load.open(stack)
        try:
            found = await measure(load)
        finally:
            await load.close()
    for stats in files.values():
        print(f"profile: {write_summary(stats)}")
    return found


async def bench(args: argparse.Namespace) -> None:
    print(HEAD, flush=True)
    if "chains" in args.only:
        chains = await on_a_stack(lambda load: growth.chains(load, args.chains), profiled=args.profile)
        print(growth.grown(chains), flush=True)
    if "loops" in args.only:
        loops = await on_a_stack(lambda load: growth.loops(load, args.loops), profiled=args.profile)
        print(growth.grown(loops), flush=True)
    if "payloads" in args.only:
        await on_a_stack(lambda load: payloads.payloads(load, args.bytes), profiled=args.profile)
    if "workers" in args.only:
        for workers in args.workers:
            await on_a_stack(partial(payloads.many, workers=workers), workers)


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes", description=__doc__)
    parser.add_argument("--only", type=lambda text: text.split(","), default=WHAT, metavar=",".join(WHAT))
    parser.add_argument("--chains", type=numbers, default=[10, 100, 1_000, 10_000], help="steps")
    parser.add_argument("--loops", type=numbers, default=[1, 10, 100, 1_000, 10_000, 100_000], help="iterations")
    parser.add_argument("--bytes", type=numbers, default=[1_000, 10_000, 100_000, 1_000_000], help="of a payload")
    parser.add_argument("--workers", type=numbers, default=[1, 4, 16], help="worker processes")
    parser.add_argument("--profile", choices=SERVICES, action="append", default=[])
    uvloop.run(bench(parser.parse_args()))


if __name__ == "__main__":
    main()
