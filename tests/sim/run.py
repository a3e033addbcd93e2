"""One world, from seed to verdict: `python -m tests.sim.run --seed N -v`."""

import argparse
import asyncio
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import structlog

from shared.runtime import plans, shell
from tests.sim import checks
from tests.sim.loop import VirtualLoop
from tests.sim.playbooks import compiled
from tests.sim.world import World, bury


@contextmanager
def quiet() -> Iterator[None]:
    """No logs, each playbook compiled once for all worlds, and snapshots often enough to matter."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    try:
        with (
            mock.patch.object(plans, "compile_playbook", lambda source, **_kinds: compiled(source)),
            mock.patch.object(shell, "SNAPSHOT_EVERY", 3),
        ):
            yield
    finally:
        structlog.configure(**before)


def run_seed(seed: int, trace: Callable[[str], None] | None = None) -> list[str]:
    """What is wrong with the world of this seed; empty when nothing is."""
    with quiet():
        world = live(seed, trace)
    return checks.check(world)


def live(seed: int, trace: Callable[[str], None] | None = None) -> World:
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    gc.disable()
    try:
        return loop.run_until_complete(_live(seed, trace))
    finally:
        loop.run_until_complete(bury())
        asyncio.set_event_loop(None)
        loop.close()
        gc.enable()


async def _live(seed: int, trace: Callable[[str], None] | None) -> World:
    world = World(seed, trace)
    await world.live()
    return world


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")


def again(seed: int) -> str:
    return f"to see it again: python -m tests.sim.run --seed {seed} -v"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    bad = 0
    for seed in range(options.seed, options.seed + options.count):
        found = run_seed(seed, _print if options.verbose else None)
        if found:
            bad += 1
            sys.stdout.write(f"seed {seed}: " + "\n   ".join(found) + f"\n   {again(seed)}\n")
    sys.stdout.write(f"{options.count - bad} of {options.count} worlds are clean\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
