"""When the broker does not answer: an error at once, or for a command that waits anyway, a word that it waits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import click

from services.cli.console import exits
from services.cli.console.exits import CliError

if TYPE_CHECKING:
    from shared.bus.jetstream import JetStreamBus
    from shared.runtime.service.settings import Settings

WITHIN_S = 2.0  # that nobody may answer: with the start of the command, less than three
LOOK_S = 0.25
SILENT_S = 1.0  # a server that is started again is back sooner


class Patience(NamedTuple):
    """Of a command that waits for an execution, at most `timeout` seconds."""

    timeout: float | None = None


async def connected(settings: "Settings", patience: Patience | None) -> "JetStreamBus":
    if patience is None:
        return await _dialled(settings)
    try:
        async with asyncio.timeout(patience.timeout):
            return await _waited(settings)
    except TimeoutError:
        what = f"no answer from {settings.nats_url} within {patience.timeout:g} s"
        raise CliError(what, exits.TIMED_OUT) from None


async def _dialled(settings: "Settings") -> "JetStreamBus":
    from shared.errors import Unavailable
    from shared.runtime.service.main import connect

    try:
        return await connect("cli", settings, WITHIN_S)
    except Unavailable as error:
        raise CliError(f"no answer from {settings.nats_url}: {error} (is `noetlctl up` running?)") from None


async def _waited(settings: "Settings") -> "JetStreamBus":
    is_said = False
    while True:
        try:
            bus = await _dialled(settings)
        except CliError as error:
            if not is_said:
                click.echo(f"noetlctl: {error}; waiting for it", err=True)
            is_said = True
            continue
        if is_said:
            click.echo(f"noetlctl: {settings.nats_url} answers", err=True)
        return bus


@asynccontextmanager
async def told(bus: "JetStreamBus", url: str, patience: Patience | None) -> AsyncIterator[None]:
    """Says when the broker has gone and that it is waited for, and when it is back."""
    if patience is None:
        yield
        return
    watching = asyncio.ensure_future(_watch(bus, url))
    try:
        yield
    finally:
        watching.cancel()


async def _watch(bus: "JetStreamBus", url: str) -> None:
    clock, gone_since, is_said = asyncio.get_running_loop().time, None, False
    while True:
        await asyncio.sleep(LOOK_S)
        if bus.connection.is_connected:
            if is_said:
                click.echo(f"noetlctl: {url} answers again", err=True)
            gone_since, is_said = None, False
        elif gone_since is None:
            gone_since = clock()
        elif not is_said and clock() - gone_since > SILENT_S:
            click.echo(f"noetlctl: {url} has gone away; waiting for it to come back (the execution goes on with it)",
                       err=True)
            is_said = True
