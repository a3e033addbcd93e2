"""A playbook on a stack of its own.

The services are tasks of this process, each on its own connection with its own user. Without a folder
nothing is to survive, so there is no read model; with one, PostgreSQL and the projector come up beside
the execution, which does not wait for them, and the command ends when they have caught up.
"""

import asyncio
import tempfile
import uuid
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec import Struct

from services.cli.console import exits, interruption
from services.cli.console.exits import CliError
from services.cli.executions import control_requests, display, requests
from services.cli.executions import result_output as output
from services.cli.playbooks import playbook_file, workload_keys
from services.cli.playbooks.playbook_file import Valid
from services.cli.stack.embedded import SERVICES
from shared.answers.history.summary import Summary
from shared.bus.ports import Bus
from shared.events.request import Request
from shared.events.subjects import inbox_prefix
from shared.runtime.embedded import stack_folder as folder
from shared.runtime.embedded.stack import Options, Stack
from shared.runtime.service import hardening, logging
from shared.runtime.service.main import cancelled, connect
from shared.runtime.service.settings import read_settings
from shared.runtime.stores import catalog, credentials

DRAIN_S = 5.0
CATCH_UP_S = 30.0
POLL_S = 0.1
OVER = ("completed", "failed", "cancelled")

T = TypeVar("T")


class Wish(Struct, frozen=True):
    """What the command line asked for."""

    file: Path
    others: tuple[Path, ...]
    payload: dict[str, Any]
    credentials: dict[str, dict[str, Any]]
    folder: Path | None
    output: str
    timeout: float | None
    sets: tuple[str, ...] = ()  # as they were written; the payload has them


async def run(wish: Wish) -> int:
    hardening.protect()  # the worker is a part of this process
    playbook, others = playbook_file.valid(wish.file), [playbook_file.valid(file) for file in wish.others]
    workload_keys.check(playbook.plan, wish.sets)
    with ExitStack() as cleanup:
        place = wish.folder or Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="noetl-")))
        place = cleanup.enter_context(folder.held(place))
        log_file = cleanup.enter_context((place / "run.log").open("a", encoding="utf-8"))
        logging.configure("info", log_file)  # stderr is for progress
        return await _on_stack(wish, playbook, others, place)


async def _on_stack(wish: Wish, playbook: Valid, others: list[Valid], place: Path) -> int:
    options = Options(place, postgres=wish.folder is not None, drain_s=DRAIN_S, asked=read_settings())
    async with Stack(options, SERVICES) as stack:
        bus = await connect("cli", stack.settings_for("admin"))
        try:
            for other in others:
                await catalog.register(bus, other.source, other.plan)
            summary = await _unless_failed(_execute(wish, playbook, bus, stack.options.partitions), stack)
            code = await output.show(bus, summary, wish.output, playbook.plan.origins)
            if wish.folder is not None:
                await _caught_up(stack, summary.execution_id)
            return code
        finally:
            await bus.close()


async def _execute(wish: Wish, playbook: Valid, bus: Bus, partitions: int) -> Summary:
    for name, value in wish.credentials.items():
        await credentials.store(bus, name, value)
    entry = await catalog.register(bus, playbook.source, playbook.plan)
    execution_id = f"r{uuid.uuid4().hex[:19]}"  # not of the form that is the engine's to derive
    request = Request(entry.path, entry.version, wish.payload, execution_id, by=control_requests.me())
    try:
        with interruption.note(_if_interrupted(wish.folder)):
            async with asyncio.timeout(wish.timeout):
                await requests.start(bus, request, f"{inbox_prefix('admin')}.{execution_id}", partitions)
                shown = display.choose(origins=playbook.plan.origins)
                return await requests.finish(bus, execution_id, partitions, shown, family=True)
    except TimeoutError:
        raise CliError(f"not finished within {wish.timeout:g} s", exits.TIMED_OUT) from None


def _if_interrupted(folder: Path | None) -> str:
    if folder is None:
        return "stopping the stack of this run, and the execution with it (--folder would keep it)"
    return f"stopping the stack of this run; the execution goes on with `noetlctl up --folder {folder}`"


async def _unless_failed(work: Coroutine[Any, Any, T], stack: Stack) -> T:
    """The work's result, or the error of a service that gave up, whichever comes first."""
    task = asyncio.ensure_future(work)
    try:
        either: set[asyncio.Future[Any]] = {task, stack.failure}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            stack.failure.result()
        return task.result()
    finally:
        await cancelled(task)


async def _caught_up(stack: Stack, execution_id: str) -> None:
    """Waits until the read model has the end of the execution, for a while: it is a copy, not the truth."""
    from services.cli.executions.readmodel import Watch

    watch = Watch()
    try:
        async with asyncio.timeout(CATCH_UP_S):
            while not stack.read_model_error:
                if await watch.status_of(stack.dsn(), execution_id) in OVER:
                    return
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        pass
    finally:
        await watch.close()
    why = stack.read_model_error or f"no end of the execution after {CATCH_UP_S:g} s"
    click.echo(f"the read model is behind ({why}); a stack in this folder brings it up to date", err=True)
