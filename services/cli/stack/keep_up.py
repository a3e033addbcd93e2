"""The whole stack as processes, kept running."""

import asyncio
import socket
from pathlib import Path

import click

from services.cli import context
from services.cli.context import Context
from services.cli.embedded import SERVICES
from services.cli.exits import CliError
from shared.runtime import folder, logging, orphan
from shared.runtime.nats_server import HOST
from shared.runtime.stack import Options, Stack


async def keep(place: Path, port: int, pools: tuple[str, ...]) -> int:
    """Runs until cancelled."""
    logging.configure("info")
    with folder.held(place) as home:
        orphan.end(home / "nats")  # it would hold the port
        _check_port(port)
        async with Stack(Options(home, port, pools, processes=True, postgres=True), SERVICES) as stack:
            await stack.ready()
            file = context.write(home, _context(stack))
            stack.on_pools = lambda: _rewrite(home, stack)
            try:
                click.echo(_welcome(stack, file))
                await asyncio.shield(stack.failure)
            finally:
                stack.on_pools = lambda: None
                file.unlink(missing_ok=True)  # nobody is there any more
    return 0


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            raise CliError(f"port {port} is in use: give another one with --port, or --port 0") from None


def _rewrite(home: Path, stack: Stack) -> None:
    """Pools came or went, and with them their users."""
    context.write(home, _context(stack))


def _context(stack: Stack) -> Context:
    return Context(
        nats_url=stack.server.url,
        users=stack.server.passwords,
        postgres_dsn=stack.dsn,
        partitions=stack.options.partitions,
        pools=stack.pools,
        health={unit.name: f"http://{HOST}:{unit.settings.health_port}" for unit in stack.units},
    )


def _welcome(stack: Stack, file: Path) -> str:
    home = file.parent
    flag = "" if home == (Path.cwd() / context.DEFAULT_FOLDER).resolve() else f" --context {file}"
    units = ", ".join(unit.name for unit in stack.units)
    return f"""The stack is up: {units}
  NATS        {stack.server.url}  (user admin; passwords are in {file})
  PostgreSQL  {stack.dsn}
  logs        {home / "logs"}

In another terminal:
  noetlctl register examples/hello.yaml{flag}
  noetlctl execute examples/hello --wait{flag}
  noetlctl get{flag}

With any NATS client:
  nats -s {stack.server.url} --user admin --password "$(python3 -c 'import json; \
print(json.load(open("{file}"))["users"]["admin"])')" \\
    pub noetl.requests.execute '{{"path": "examples/hello"}}' -H Nats-Msg-Id:first

Ctrl-C stops it; the data stays in {home}."""
