"""The whole stack as processes, kept running."""

import asyncio
from pathlib import Path

import click

from services.cli.console import interruption
from services.cli.console.exits import CliError
from services.cli.stack import context, welcome
from services.cli.stack.context import Context
from services.cli.stack.embedded import SERVICES
from shared.runtime.embedded import orphan_server, stack_folder
from shared.runtime.embedded.nats_server import HOST, is_free
from shared.runtime.embedded.postgres_roles import PROJECTOR, READER
from shared.runtime.embedded.stack import Options, Stack
from shared.runtime.service import hardening, logging, targets
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
            file = _write(home, stack)
            stack.on_change = lambda: _changed(home, stack)
            try:
                click.echo(welcome.text(stack, file, READER))
                with interruption.note(f"stopping the services; the data stays in {home}"):
                    await asyncio.shield(stack.failure)
            finally:
                stack.on_change = lambda: None
                file.unlink(missing_ok=True)  # nobody is there now
                targets.remove(home / targets.FOLDER / targets.SERVICES)
    return 0


def _check_port(port: int) -> None:
    if not is_free(port):
        raise CliError(f"port {port} is in use: give another one with --port, or --port 0")


def _changed(home: Path, stack: Stack) -> None:
    """Pools came or went, and with them their users; or a service answers elsewhere."""
    _write(home, stack)


def _write(home: Path, stack: Stack) -> Path:
    """Says where everything is: to noetlctl, and to a Prometheus."""
    found = context_of(stack)
    addresses = {name: url.removeprefix("http://") for name, url in found.health.items()}
    targets.write(home / targets.FOLDER / targets.SERVICES, addresses)
    return context.write(home, found)


def context_of(stack: Stack) -> Context:
    return Context(
        nats_url=stack.server.url,
        users=stack.server.passwords,
        postgres_dsn=stack.dsn(),
        postgres_admin_dsn=stack.dsn(PROJECTOR),
        partitions=stack.options.partitions,
        pools=stack.pools,
        retention=stack.options.asked.retention,
        health={unit.name: f"http://{HOST}:{unit.settings.health_port}" for unit in stack.units},
    )

