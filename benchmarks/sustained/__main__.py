"""`python -m benchmarks.sustained`: executions kept in flight for a minute, what it costs, and whether the read model
keeps up. With `--against FOLDER` another checkout's services run in turns with these."""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import report

RESULTS = Path(__file__).parents[1] / "results"
HERE = Path(__file__).parents[2]
SITTING = Path(__file__).with_name("sitting.py")
MAX_RATIO, MAX_LAG_S = 1.5, 2.0
EVEN = 0.97  # the read model moves by batches: what one has more or less is so much of the end
EXTRA_S = 600  # beside the load: start, catching up, end

Found = dict[str, Any]


def run(checkout: Path, sync: str, args: argparse.Namespace) -> Found:
    """One sitting with the checkout's code, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="noetl-sustained-") as folder:
        file = Path(folder) / "figures.json"
        command = [sys.executable, str(SITTING), sync, str(args.seconds), str(args.in_flight), str(file)]
        # After the script's own folder Python looks here: for `benchmarks`, `services` and `shared`.
        environ = {**os.environ, "PYTHONPATH": str(checkout)}
        done = subprocess.run(command, cwd=checkout, env=environ, timeout=args.seconds + EXTRA_S, check=False)
        if done.returncode:
            raise SystemExit(f"the sitting of {checkout} with sync {sync} ended with {done.returncode}")
        return dict(msgspec.json.decode(file.read_bytes()))


def text(name: str, sync: str, found: Found) -> str:
    tail, size = found["tail"], found["bytes"]
    keeps_up = tail["read_model"] >= EVEN * tail["engine"] and found["lag_s"] < MAX_LAG_S
    return "\n".join((
        f"{name}, sync {sync}: {found['steps_s']:.0f} steps/s",
        f"    at the end: engine {tail['engine']:.0f}, read model {tail['read_model']:.0f} steps/s, lag "
        f"{found['lag_s']:.2f} s ({_verdict(keeps_up)}); then caught up after {found['caught_up_s']:.1f} s",
        f"    bytes per step: log {size['log']:.0f}, tables and indexes {size['tables']:.0f}, ratio "
        f"{size['ratio']:.2f} ({_verdict(size['ratio'] <= MAX_RATIO)}: at most {MAX_RATIO}); "
        f"WAL {size['wal_written']:.0f} written, {found['wal_kept'] / 1e6:.0f} MB kept",
        f"    CPU µs per step: {_list(found['cpu_us'], '.1f')}",
        f"    memory in MB: {_list(found['memory_mb'], '.0f')}",
    ))


def _verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def _list(figures: Mapping[str, float], how: str) -> str:
    return ", ".join(f"{name} {value:{how}}" for name, value in figures.items())


def compared(mine: Sequence[Found], theirs: Sequence[Found]) -> str:
    """By the best turn of each: whatever else runs can only take from it."""
    ours, others = (max(found["steps_s"] for found in turns) for turns in (mine, theirs))
    return f"    {ours / others:.2f} times the steps/s of the other checkout"


def bench(args: argparse.Namespace) -> None:
    checkouts = {"this": HERE, **({"against": args.against} if args.against else {})}
    result: Found = {"machine": report.machine(), "checkouts": {name: str(each) for name, each in checkouts.items()}}
    for sync in ("default", "always") if args.sync == "both" else (args.sync,):
        turns: dict[str, list[Found]] = {name: [] for name in checkouts}
        for _ in range(args.turns):
            for name, checkout in reversed(checkouts.items()):
                turns[name].append(run(checkout, sync, args))
                print(text(name, sync, turns[name][-1]), flush=True)
        if args.against:
            print(compared(turns["this"], turns["against"]), flush=True)
        result[sync] = turns
    file = RESULTS / args.out
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    print(f"written: {file}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sustained", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of load that are measured (60)")
    parser.add_argument("--in-flight", type=int, default=200, help="executions at a time (200)")
    parser.add_argument("--sync", choices=["default", "always", "both"], default="both")
    parser.add_argument("--turns", type=int, default=1, help="sittings of each checkout (1)")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another checkout, run in turns with this one")
    parser.add_argument("--out", default="sustained.json", help="relative to benchmarks/results (sustained.json)")
    args = parser.parse_args()
    if args.against is not None:
        args.against = args.against.resolve()
        if not (args.against / "benchmarks" / "stack.py").is_file():
            parser.error(f"{args.against} is no checkout of this project")
    bench(args)


if __name__ == "__main__":
    main()
