"""Services of an earlier version beside those of this one: `python -m tests.golden.side_by_side --old COMMIT`.

Two routers, two schedulers, two workers and a projector of the old version, on one broker. While executions start they
are replaced one by one as UPGRADING.md says: control services first, then workers; then back, the other way round; then
forth again. In the end every execution has completed once, and `verify --all` of both versions finds nothing.
CI does not run it. The broker is configured by this version, as an upgrade begins with it.
"""

import argparse
import asyncio
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.chaos.driving.log import Log, check, start
from tests.chaos.driving.support import TWO, Cluster
from tests.support.cli import COMMAND, environment
from tests.support.paths import ROOT
from tests.support.terminal import say

FORTH = ("router", "scheduler", "projector", "worker")
EVERY_S = 0.5
REST_S = 1.0
WITHIN_S = 240.0
WORK: dict[str, dict[str, Any]] = {"chaos/chain": {}, "chaos/parent": {"items": [1, 2]}}


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="noetl-mixed-") as name:
        code = Path(name) / "code"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(code), commit], check=True)
        try:
            yield code
        finally:
            subprocess.run([*git, "remove", "--force", str(code)], check=True)


class Mixed(Cluster):
    """All of its services are of the old version at first."""

    def __init__(self, old: Path) -> None:
        super().__init__(TWO)
        self.old = old

    async def heal(self) -> None:
        for process in self.processes.values():
            if not process.running:
                process.code = self.old
        await super().heal()

    async def roll(self, code: Path, kinds: tuple[str, ...]) -> None:
        for kind in kinds:
            for process in self.of(kind):
                ended = await self.stop(process.name)
                assert ended == 0, f"{process.name} ended with {ended}:\n{process.tail()}"
                process.code = code
                process.start()
                await process.ready()
                await asyncio.sleep(REST_S)

    def verify(self, code: Path) -> str:
        """By the command of a version."""
        context = self.folder / "context.json"
        found = {"nats_url": self.nats.url, "users": dict(self.nats.passwords), "postgres_dsn": self.dsn}
        context.write_bytes(msgspec.json.encode(found))
        done = subprocess.run(
            [*COMMAND, "verify", "--all", "--context", str(context)], cwd=code, capture_output=True, text=True,
            env=environment(PYTHONPATH=str(code)), timeout=WITHIN_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip().splitlines()[-1]


async def load(log: Log, asked: list[str]) -> None:
    """An execution after the other, until it is cancelled."""
    for number, (path, payload) in enumerate(itertools.cycle(WORK.items())):
        asked.append(f"mixed-{number}")
        await start(log.bus, path, {asked[-1]: payload})
        await asyncio.sleep(EVERY_S)


async def run(cluster: Mixed, times: int) -> None:
    bus = await cluster.connect()
    try:
        log, asked = await Log.open(bus), list[str]()
        loading = asyncio.create_task(load(log, asked))
        for _ in range(times):
            await cluster.roll(ROOT, FORTH)
            say(f"forth: {len(asked)} executions asked for")
            await cluster.roll(cluster.old, FORTH[::-1])
            say(f"back: {len(asked)} executions asked for")
        await cluster.roll(ROOT, FORTH)
        loading.cancel()
        await log.until_over(asked, WITHIN_S)
        await check(log, asked)
        say(f"{len(asked)} executions completed once, and every decision follows")
        for name, code in (("this version", ROOT), ("the old one", cluster.old)):
            say(f"verify --all by {name}: {await asyncio.to_thread(cluster.verify, code)}")
    except BaseException:
        say(cluster.tails())
        raise
    finally:
        await bus.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True, metavar="COMMIT")
    parser.add_argument("--times", type=int, default=1)
    options = parser.parse_args()
    with worktree(options.old) as old, Mixed(old) as cluster:
        asyncio.run(run(cluster, options.times))
    return 0


if __name__ == "__main__":
    sys.exit(main())
