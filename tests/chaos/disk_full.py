"""`python -m tests.chaos.disk_full`: the embedded stack on a small filesystem that someone else fills to the last byte
while executions run; then space comes back, and nobody restarts anything. Needs the right to mount (root), or with
`--folder` a small filesystem that is there already."""

import argparse
import asyncio
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from services.cli.stack.embedded import SERVICES
from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.errors import NoetlError
from shared.runtime.embedded.broker_watch import write_error
from shared.runtime.embedded.stack import Options, Stack
from shared.runtime.service.main import connect
from tests.chaos.driving.log import Log, start
from tests.chaos.driving.support import PLAYBOOKS, register
from tests.support.proved import assert_all_right
from tests.support.terminal import say

SIZE_MB = 128
CHUNK = 65_536
EXECUTIONS = 200
FULL_S, OVER_S = 120.0, 240.0
ASK_EVERY_S = 0.2
STAYS_S = 6.0  # full; longer than it takes to notice


@contextmanager
def small_filesystem() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="noetl-full-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()


def fill(file: Path) -> int:
    """As someone else on the same disk: until not a byte is left."""
    with file.open("ab", buffering=0) as ballast:
        for chunk in (CHUNK, 512, 1):
            with suppress(OSError):
                while ballast.write(b"x" * chunk):
                    pass
    return file.stat().st_size


async def keep_asking(bus: JetStreamBus, ballast: Path, stopped: asyncio.Event) -> list[str]:
    """New work all the while, until the broker says that it cannot write; what of it is stored is not known."""
    asked = []
    while not stopped.is_set():
        await asyncio.to_thread(fill, ballast)
        name = f"meanwhile-{len(asked)}"
        asked.append(name)
        with suppress(NoetlError, TimeoutError):
            async with asyncio.timeout(1.0):
                await start(bus, "chaos/chain", {name: {}})
        await asyncio.sleep(ASK_EVERY_S)
    return asked


async def until_full(stack: Stack, bus: JetStreamBus, ballast: Path) -> list[str]:
    """What was asked for until then."""
    stopped, said = asyncio.Event(), ""
    asking = asyncio.create_task(keep_asking(bus, ballast, stopped))
    try:
        async with asyncio.timeout(FULL_S):
            while not said:
                said = await write_error(stack.server.monitor_port)
                await asyncio.sleep(ASK_EVERY_S)
    finally:
        stopped.set()
        asked = await asking
    say(f"full: {said}")
    return asked


async def drive(stack: Stack, bus: JetStreamBus, ballast: Path) -> None:
    log, pid = await Log.open(bus), stack.server.pid
    names = [f"sleeper-{i}" for i in range(EXECUTIONS)]
    await start(bus, "chaos/sleeper", {name: {} for name in names})
    asked = await until_full(stack, bus, ballast)
    await asyncio.sleep(STAYS_S)
    assert stack.server.pid == pid, "a restart on a full disk helps nobody"
    await asyncio.to_thread(ballast.unlink)
    began = time.monotonic()
    await log.until_over(names, OVER_S)
    say(f"space came back: {EXECUTIONS} executions over {time.monotonic() - began:.1f} s later")
    assert stack.server.pid != pid, "nobody restarted the server"
    await log.until_over([name for name in asked if name in log.histories], OVER_S)
    await start(bus, "chaos/chain", {"afterwards": {}})
    await log.until_over(["afterwards"], OVER_S)
    await assert_all_right(bus, topology.PARTITIONS)
    say(f"{len(log.ends)} executions over, all of them verified")


async def run(folder: Path) -> None:
    async with Stack(Options(folder / "stack", drain_s=5.0), SERVICES) as stack:
        await stack.ready()
        bus = await connect("admin", stack.settings_for("admin"))
        try:
            for file in ("chain", "sleeper"):
                await register(bus, (PLAYBOOKS / f"{file}.yaml").read_bytes())
            await drive(stack, bus, folder / "ballast")
        finally:
            await bus.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.disk_full", description=__doc__)
    parser.add_argument("--folder", type=Path, help="on a small filesystem of its own")
    folder = parser.parse_args().folder
    if folder is not None:
        try:
            asyncio.run(run(folder))
        finally:
            shutil.rmtree(folder / "stack", ignore_errors=True)
        return
    with small_filesystem() as mounted:
        asyncio.run(run(mounted))


if __name__ == "__main__":
    main()
