"""The whole stack as processes, kept running."""

import asyncio
import socket
from pathlib import Path

import click

from services.cli.console.exits import CliError
from services.cli.stack import context
from services.cli.stack.context import Context
from services.cli.stack.embedded import SERVICES
from shared.events import subjects
from shared.events.headers import MESSAGE_ID
from shared.runtime.embedded import orphan_server, stack_folder
from shared.runtime.embedded.nats_server import HOST
from shared.runtime.embedded.postgres_roles import PROJECTOR, READER
from shared.runtime.embedded.stack import Options, Stack
from shared.runtime.service import hardening, logging
from shared.runtime.service.settings import read_settings


async def keep(place: Path, port: int, pools: tuple[str, ...]) -> int:
    """Runs until cancelled."""
    hardening.protect()  # it knows every password
    logging.configure("info")
    with stack_folder.held(place) as home:
        orphan_server.end(home / "nats")  # it would hold the port
        _check_port(port)
        options = Options(home, port, pools, processes=True, postgres=True, asked=read_settings())
        async with Stack(options, SERVICES) as stack:
            await stack.ready()
            file = context.write(home, context_of(stack))
            stack.on_pools = lambda: _rewrite(home, stack)
            try:
                click.echo(_welcome(stack, file))
                await asyncio.shield(stack.failure)
            finally:
                stack.on_pools = lambda: None
                file.unlink(missing_ok=True)  # nobody is there now
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
    context.write(home, context_of(stack))


def context_of(stack: Stack) -> Context:
    return Context(
        nats_url=stack.server.url,
        users=stack.server.passwords,
        postgres_dsn=stack.dsn(),
        postgres_admin_dsn=stack.dsn(PROJECTOR),
        partitions=stack.options.partitions,
        pools=stack.pools,
        health={unit.name: f"http://{HOST}:{unit.settings.health_port}" for unit in stack.units},
    )


def _socket(stack: Stack) -> str:
    return stack.database.socket if stack.database is not None else ""


def _welcome(stack: Stack, file: Path) -> str:
    home = file.parent
    flag = "" if home == (Path.cwd() / context.DEFAULT_FOLDER).resolve() else f" --context {file}"
    units = ", ".join(unit.name for unit in stack.units)
    return f"""The stack is up: {units}
  NATS        {stack.server.url}  (user admin; passwords are in {file})
  PostgreSQL  role {READER} by the socket in {_socket(stack)}  (its DSN is there too)
  logs        {home / "logs"}

In another terminal:
  noetlctl register examples/hello.yaml{flag}
  noetlctl execute examples/hello --wait{flag}
  noetlctl get{flag}

With any NATS client:
  nats -s {stack.server.url} --user admin --password "$(python3 -c 'import json; \
print(json.load(open("{file}"))["users"]["admin"])')" \\
    pub {subjects.EXECUTE} '{{"path": "examples/hello"}}' -H {MESSAGE_ID}:first

Ctrl-C stops it; the data stays in {home}."""
