"""noetlctl execute: an execution of a registered playbook on a running stack."""

import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli.console import exits, options, render
from services.cli.console.exits import CliError
from services.cli.executions import control_requests, label_selector
from services.cli.playbooks import inputs
from services.cli.stack import completions, context
from services.cli.stack.broker_away import Patience

if TYPE_CHECKING:
    from shared.bus.ports import Bus
    from shared.events.request import Request


@click.command("execute", epilog="Example: noetlctl execute examples/hello --set greeting=Hi -l team=data --wait")
@click.argument("path", shell_complete=completions.paths)
@click.option("--version", default="", shell_complete=completions.versions,
              help="A version other than the latest registered.")
@options.payload
@options.sets
@click.option("-l", "--label", "labels", multiple=True, metavar="K=V", help="A label beside those of the playbook; may "
              "be repeated.")
@click.option("--id", "key", default="", metavar="KEY", help="The same key again is the same execution.")
@click.option("--priority", type=click.IntRange(0, 9), help="9 goes first; that of the playbook unless given.")
@click.option("--wait", is_flag=True, help="Follow it to its end; exit code 4 when it fails.")
@options.dry_run
@render.option()
@options.timeout
@context.option
def command(
    path: str,
    version: str,
    payload: str | None,
    sets: tuple[str, ...],
    labels: tuple[str, ...],
    key: str,
    priority: int | None,
    wait: bool,
    dry_run: bool,
    output: str,
    timeout: float | None,
    context_file: Path | None,
) -> int:
    """Start an execution of a registered playbook and print its id.

    Exits 7 when no such playbook is registered, 8 when --id is that of an execution with another payload.
    """
    asked, given = inputs.payload(payload, sets), label_selector.assigned(labels)
    from services.cli.console import run_async
    from shared.events.request import Request

    request = Request(path, version, asked, priority=priority, labels=given, by=control_requests.me())
    if dry_run:
        return run_async.run(_would(request, sets, output, context_file))
    return run_async.run(_execute(request, sets, key, wait, output, timeout, context_file))


async def _execute(
    request: "Request", sets: tuple[str, ...], key: str, wait: bool, output: str, timeout: float | None,
    context_file: Path | None,
) -> int:
    """Without a key it gets one: whoever hears no answer can ask again."""
    from services.cli.executions import generated_names, requests
    from services.cli.executions.result_output import line, show

    settings = context.find(context_file)
    async with context.connected(settings, Patience(timeout) if wait else None) as bus:
        await _check(bus, request, sets)
        try:
            answer = await requests.start(
                bus, request, context.inbox(settings), settings.partitions, key or uuid.uuid4().hex)
        except requests.Unanswered as unanswered:
            line({"execution_id": unanswered.execution_id, "status": "unanswered"}, output)
            raise
        if answer.status == "duplicate":
            await requests.expect_same(bus, answer.execution_id, settings.partitions, request)
        if not wait:
            line({"execution_id": answer.execution_id, "status": answer.status}, output)
            return exits.OK
        summary = await requests.finish_within(bus, answer.execution_id, settings.partitions, timeout, family=True)
        return await show(bus, summary, output, await generated_names.of(bus, summary.digest))


async def _check(bus: "Bus", request: "Request", sets: tuple[str, ...]) -> None:
    """That the playbook is there, and reads what is set."""
    from services.cli.playbooks import registered, workload_keys
    from shared.dsl.model.edition import plan_name
    from shared.errors import Refused
    from shared.runtime.stores.plans import Plans

    with suppress(Refused):  # who asks may not read the catalogue; the router does
        entry = await registered.expect(bus, request.path, request.version)
        if sets:
            workload_keys.check(await Plans(bus).load(plan_name(entry.digest)), sets)


async def _would(request: "Request", sets: tuple[str, ...], output: str, context_file: Path | None) -> int:
    """The first decision, taken here: it says what a router would, and writes nothing."""
    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        await _check(bus, request, sets)
        found = await _rehearsed(bus, request, settings.pools)

    def text() -> None:
        click.echo(f"would execute {found['path']} version {found['version']} from step {found['start']}")
        render.fields({key: found[key] for key in ("digest", "labels", "workload")})

    render.document(found, output, "path", text)
    return exits.OK


async def _rehearsed(bus: "Bus", request: "Request", given: tuple[str, ...]) -> dict[str, object]:

    from services.cli.executions import requests
    from shared.dsl.model.edition import plan_name
    from shared.engine.pools import placement
    from shared.engine.routing import decide as routing
    from shared.events import model as ev
    from shared.runtime.stores import catalog, pool_offers
    from shared.runtime.stores.plans import Plans
    from shared.runtime.stores.readiness import Readiness

    requests.encoded(request)
    try:
        entry = await catalog.find(bus, request.path, request.version)
    except catalog.NotRegistered as error:
        raise CliError(str(error), exits.NOT_FOUND) from None
    plan = await Plans(bus).load(plan_name(entry.digest))
    found: dict[str, object] = {"path": entry.path, "version": entry.version, "digest": entry.digest}
    now = await bus.time()
    pools = pool_offers.choose(plan.steps, await pool_offers.read(bus, now) if placement.needs(plan.steps) else [])
    lacking = await Readiness(bus, given).unready(plan)
    unready = (lacking.kind, lacking.message) if lacking is not None else None
    for event in routing.start("dry-run", request, "", plan, now, pools=pools, unready=unready):
        match event:
            case ev.PlaybookStarted(workload=workload):
                found["workload"] = workload
            case ev.ExecutionRequested(labels=labels):
                found["labels"] = labels
            case ev.RequestEvaluated(error=reason) if reason:
                raise CliError(f"it would be refused: {reason['message']}")
            case ev.StepScheduled(step=step):
                found.setdefault("start", step)
    return {"start": plan.start, **found, "dry_run": True}
