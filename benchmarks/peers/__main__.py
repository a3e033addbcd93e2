"""`python -m benchmarks.peers`: the same work on our engine and on others, in turns, on one machine."""

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvloop

from benchmarks import report
from benchmarks.peers import sitting
from benchmarks.peers.celery import CELERY
from benchmarks.peers.dbos import DBOS
from benchmarks.peers.place import Peer, Place, install
from benchmarks.peers.prefect import PREFECT
from benchmarks.peers.restate import RESTATE
from benchmarks.peers.temporal import TEMPORAL
from benchmarks.stack import Stack
from shared.runtime.embedded.nats_server import find_binary

PEERS: tuple[Peer, ...] = (RESTATE, TEMPORAL, DBOS, CELERY, PREFECT)
SYNCS = ("default", "always")


async def one_sync(peer: Peer, sync: str, args: argparse.Namespace) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix=f"noetl-peer-{peer.name}-"))
    try:
        (folder / "counts").mkdir()
        async with Stack(sync, {}) as stack:
            settings = {**peer.settings, **dict(each.split("=", 1) for each in args.set)}
            place = Place(args.home / peer.name, folder, sync == "always", stack.dsn, settings)
            async with peer.running(place) as running:
                return await measured(sitting.Sitting(stack, peer, place, running), peer, sync, args)
    finally:
        if args.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


async def measured(sat: sitting.Sitting, peer: Peer, sync: str, args: argparse.Namespace) -> dict[str, Any]:
    found = {}
    for workload in sitting.chosen(args.workloads):
        found[workload.name] = await sat.measure(workload, args.repeat, args.alone)
        print(sitting.line(workload.name, peer.name, sync, found[workload.name]), flush=True)
    return found


async def bench(args: argparse.Namespace) -> None:
    result: dict[str, Any] = {"machine": report.machine(), "versions": report.versions(find_binary())}
    peers = [peer for peer in PEERS if not args.only or peer.name in args.only]
    for peer in peers:
        install(peer, args.home / peer.name)
    print(sitting.HEAD, flush=True)
    for peer in peers:
        syncs = SYNCS if args.sync == "both" else (args.sync,)
        result[peer.name] = {sync: await one_sync(peer, sync, args) for sync in syncs}
        result[peer.name]["packages"] = [*peer.packages, *peer.node]
        result[peer.name]["settings"] = {**peer.settings, **dict(each.split("=", 1) for each in args.set)}
    if args.out:
        args.out.write_bytes(sitting.written(result))
        print(f"written: {args.out}")


def names(known: Sequence[str]) -> Any:
    def parse(text: str) -> list[str]:
        found = text.split(",")
        if unknown := set(found) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: choose from {', '.join(known)}")
        return found

    return parse


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--only", type=names([peer.name for peer in PEERS]), default=[], metavar="restate,dbos")
    parser.add_argument("--workloads", type=names([w.name for w in sitting.BOTH]), default=[], metavar="W1,W2")
    parser.add_argument("--sync", choices=[*SYNCS, "both"], default="both")
    parser.add_argument("--repeat", type=int, default=3, help="measured turns of each workload (3)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the peer")
    parser.add_argument("--alone", action="store_true", help="the peer without our engine, to try its settings")
    parser.add_argument("--home", type=Path, default=Path.home() / ".cache" / "noetl-peers",
                        help="where their packages are (~/.cache/noetl-peers)")  # fmt: skip
    parser.add_argument("--out", type=Path, help="a file for the figures")
    parser.add_argument("--keep", action="store_true", help="leave logs and data")
    uvloop.run(bench(parser.parse_args()))


if __name__ == "__main__":
    main()
