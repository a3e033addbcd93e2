"""noetlctl pool logs: the files of workers that run as children of the pools service on this machine."""

import asyncio
import socket
from collections import deque
from pathlib import Path

import click

from services.cli.console import exits
from services.cli.console.exits import CliError
from services.cli.pools import states
from services.cli.stack import context
from shared.runtime.stores.pool_state import PoolState

POLL_S = 0.3


async def logs(name: str, worker: str, follow: bool, lines: int, context_file: Path | None) -> int:
    async with context.connected(context.find(context_file)) as bus:
        files = _files(await states.one(bus, name), worker)
    places = {file: print_last(title, file, lines) for title, file in files.items()}
    while follow:
        await asyncio.sleep(POLL_S)
        for title, file in files.items():
            places[file] = print_more(title, file, places[file])
    return exits.OK


def _files(state: PoolState, worker: str) -> dict[str, Path]:
    """By the worker's name; one that is gone has left its file."""
    if state.backend == "external":
        raise CliError(f"pool {state.name} is external: its workers write their logs where they run")
    if state.backend == "kubernetes":
        raise CliError(f"the workers of pool {state.name} are Pods: kubectl logs -l noetl.io/pool={state.name}")
    host = state.status.host
    if host and host != socket.gethostname():
        raise CliError(f"the workers of pool {state.name} run on {host}: their logs are there")
    files = {each.name: Path(each.log) for each in state.workers if each.log and each.name.startswith(worker)}
    if not worker:
        folders = {file.parent for file in files.values()}
        known = set(files.values())
        for file in sorted(f for folder in folders for f in folder.glob(f"worker-{state.name}-[0-9]*.log")):
            if file not in known:
                files[file.stem.removeprefix("worker-")] = file
    files = {title: file for title, file in files.items() if file.exists()}
    if not files:
        what = f"worker {worker} of pool {state.name}" if worker else f"pool {state.name}"
        raise CliError(f"no log of {what} is here (`noetlctl pool workers {state.name}`)", exits.NOT_FOUND)
    return files


def print_last(title: str, file: Path, lines: int) -> int:
    """Prints the last lines; where the next one begins."""
    with file.open("rb") as source:
        for line in deque(source, lines) if lines else ():
            _print(title, line)
        return file.stat().st_size if not lines else source.tell()


def print_more(title: str, file: Path, place: int) -> int:
    with file.open("rb") as source:
        source.seek(place)
        for line in source:
            if not line.endswith(b"\n"):
                break  # half a line: the rest comes
            _print(title, line)
            place += len(line)
    return place


def _print(title: str, line: bytes) -> None:
    click.echo(f"{title} | {line.decode(errors='replace').rstrip()}")
