"""One world, from seed to verdict: `python -m tests.sim.run --seed N -v`."""

import argparse
import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import structlog

from shared.dsl.compile import Compiled
from shared.runtime.control import shell
from shared.runtime.stores import plans
from tests.sim import checks
from tests.sim.books.playbooks import BOOKS, compiled
from tests.sim.loop import VirtualLoop
from tests.sim.world import Asked, World, bury
from tests.support.drafts import compared

STORY_LINES = 60


def _compiled(source: bytes, *, kinds: object, edition: int) -> Compiled:  # noqa: ARG001  # those of the registry
    return compiled(source, edition)


@contextmanager
def quiet() -> Iterator[None]:
    """No logs, each playbook compiled once for all worlds, and snapshots often enough to matter."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    try:
        with (
            mock.patch.object(plans, "compile_playbook", _compiled),
            mock.patch.object(shell, "SNAPSHOT_EVERY", 3),
        ):
            yield
    finally:
        structlog.configure(**before)


def run_seed(seed: int, trace: Callable[[str], None] | None = None) -> list[str]:
    """What is wrong with the world of this seed; empty when nothing is."""
    with quiet(), compared() as wrong:
        world = live(seed, trace)
    return checks.check(world) + wrong


def live(seed: int, trace: Callable[[str], None] | None = None) -> World:
    return _in_virtual_time(lambda: World(seed, trace), World.live)


def live_in_peace(*books: str) -> World:
    """One execution of each playbook, named `e0`, `e1` …, with nothing going wrong."""
    asked = [ask_for(name, f"e{k}") for k, name in enumerate(books)]
    return live_through(lambda world: world.live_in_peace(asked))


def live_through(story: Callable[[World], Awaitable[None]]) -> World:
    """A world in which just this happens."""
    with quiet():
        return _in_virtual_time(lambda: World(0), story)


def ask_for(name: str, execution_id: str) -> Asked:
    book = next(book for book in BOOKS if book.name == name)
    return Asked(book, book.payload(4), "", execution_id)


def _in_virtual_time(make: Callable[[], World], story: Callable[[World], Awaitable[None]]) -> World:
    async def told() -> World:
        world = make()
        await story(world)
        return world

    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    gc.disable()
    try:
        return loop.run_until_complete(told())
    finally:
        loop.run_until_complete(bury())
        asyncio.set_event_loop(None)
        loop.close()
        gc.enable()


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")


def again(seed: int) -> str:
    return f"to see it again: python -m tests.sim.run --seed {seed} -v"


def report(seed: int, found: list[str]) -> str:
    """The verdict, how to get it again, and the end of the story."""
    story: list[str] = []
    run_seed(seed, story.append)
    return "\n".join([f"seed {seed}:", *found, again(seed), *story[-STORY_LINES:]])


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
