"""noetlctl replay: recorded executions through an edited playbook, without calling a tool."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli.console import execution_ids, exits, progress, render
from services.cli.console.exits import CliError
from services.cli.stack import archived, context
from shared.events.run_index import iteration_part

if TYPE_CHECKING:
    from services.cli.executions.logbook import Logbook
    from shared.bus.ports import Bus
    from shared.dsl.model.plan import Plan
    from shared.runtime.service.settings import Settings

MAX_REPLAYS = 10_000
COLUMNS = (
    render.Column("EXECUTION", "execution_id"), render.Column("PLAYBOOK", "path", wide=True),
    render.Column("RECORDED", "recorded"), render.Column("VERDICT", "verdict"),
    render.Column("AT", lambda row: _at(row)), render.Column("NOTES", lambda row: len(row["notes"]), wide=True),
)


@click.command("replay", epilog="Examples: noetlctl replay 4f1c… --against edited.yaml   "
               "noetlctl replay --playbook shop/orders --last 200 --against edited.yaml")
@execution_ids.optional
@click.option("--against", "file", metavar="FILE", type=click.Path(path_type=Path),
              help="The edited playbook; without it every execution is replayed against its own source.")
@click.option("--playbook", "path", metavar="PATH", help="The latest executions of this playbook instead of one.")
@click.option("--last", metavar="N", type=click.IntRange(1, MAX_REPLAYS), default=20, show_default=True,
              help="How many of them.")
@render.option("table", "wide", "json", "yaml", "name", "jsonl")
@archived.option
@context.option
def command(
    execution: str | None, file: Path | None, path: str | None, last: int, output: str, archive_place: Path | None,
    context_file: Path | None,
) -> int:
    """Run recorded outcomes through an edited playbook, without calling a tool.

    identical: it decides as the log did. diverges: the first decision that differs is shown. needs_calls: it makes
    calls that were never recorded. The log keeps outcomes and not how calls were rendered: a task that was edited is
    told as a note. Exits 0 when all are identical, 1 otherwise, 3 when FILE is not valid.
    """
    from services.cli.console import run_async

    if (execution is None) == (path is None):
        raise CliError("say what to replay: an execution, or --playbook PATH", exits.USAGE)
    plan = _plan(file) if file is not None else None
    return run_async.run(_replay(execution, path, last, plan, file, output, (context_file, archive_place)))


def _plan(file: Path) -> "Plan":
    from services.cli.playbooks import playbook_file

    return playbook_file.valid(file).plan


async def _replay(
    execution: str | None, path: str | None, last: int, plan: "Plan | None", file: Path | None, output: str,
    places: tuple[Path | None, Path | None],
) -> int:
    found: list[dict[str, Any]] = []
    async with archived.source(*places) as (bus, settings):
        wanted = [execution] if execution else await _recorded(bus, settings, path or "", last)
        with progress.bar("replaying", len(wanted)) as done:
            async for replayed in _all(bus, settings, wanted, plan):
                found.append(replayed)
                done()
                if output == "jsonl":
                    render.value(replayed, "jsonl")
    _show(found, file, output)
    return exits.OK if all(each["verdict"] == "identical" for each in found) else exits.ERROR


async def _recorded(bus: "Bus", settings: "Settings", path: str, last: int) -> list[str]:
    from services.cli.executions.recent import latest

    found = await latest(bus, settings, path, last)
    if not found:
        raise CliError(f"no execution of playbook {path!r} is known (`noetlctl get` lists the recent ones)",
                       exits.NOT_FOUND)
    return found


async def _all(
    bus: "Bus", settings: "Settings", wanted: list[str], plan: "Plan | None"
) -> AsyncIterator[dict[str, Any]]:
    from services.cli.executions import logbook
    from shared.runtime.stores.plans import Plans

    plans = Plans(bus)
    for execution_id in wanted:
        yield await _one(await logbook.read(bus, execution_id, settings.partitions, plans), plan)


async def _one(book: "Logbook", plan: "Plan | None") -> dict[str, Any]:
    from shared.answers.replay.recording import Recording, digest_of
    from shared.answers.replay.replay import replay
    from shared.answers.replay.shape import shape
    from shared.tools import registry
    from shared.tools.testing.effectless import natural

    digest = digest_of(book.entries)
    own = await _own(book, digest) if digest else None
    against = plan or own
    if against is None:
        why = "its source is gone from the catalogue" if digest else "its request was refused"
        raise CliError(f"execution {book.execution_id} cannot be replayed as it was: {why} (--against FILE)")

    def work() -> dict[str, Any]:
        recording = Recording(book.execution_id, book.entries, own)
        return shape(replay(recording, against, registry.specs(), natural, book.values))

    return await book.ask(work)


async def _own(book: "Logbook", digest: str) -> "Plan | None":
    """The playbook as it was recorded; without it, edited tasks cannot be told."""
    from shared.runtime.stores.catalog import NotRegistered

    try:
        return await book.plans.load(digest)
    except NotRegistered:
        click.echo(f"warning: the source of {book.execution_id} is gone: what was edited cannot be told", err=True)
        return None


def _show(found: list[dict[str, Any]], file: Path | None, output: str) -> None:
    match output:
        case "json" | "yaml":
            render.value(_summary(found, file), output)
        case "name":
            for each in found:
                click.echo(each["execution_id"])
        case "table" | "wide":
            if len(found) == 1:
                _text(found[0])
            else:
                render.rows(found, COLUMNS, output, "execution_id")
                click.echo(_counted(_summary(found, file)), err=True)


def _summary(found: list[dict[str, Any]], file: Path | None) -> dict[str, Any]:
    counts = {verdict: sum(each["verdict"] == verdict for each in found)
              for verdict in ("identical", "diverges", "needs_calls")}
    return {"against": str(file) if file is not None else None, "total": len(found), **counts, "replays": found}


def _counted(summary: Mapping[str, Any]) -> str:
    return (f"{summary['total']} replayed: {summary['identical']} identical, {summary['diverges']} diverging, "
            f"{summary['needs_calls']} in need of calls")


def _at(row: Mapping[str, Any]) -> str:
    if row["divergence"]:
        return str(row["divergence"]["message"])
    return ", ".join(_need(need) for need in row["needs"])


def _need(need: Mapping[str, Any]) -> str:
    run = need["run_id"] + iteration_part(need["index"])
    element = f" element {need['element']}" if need["element"] >= 0 else ""
    return f"{run}/{need['task']} ({need['kind']}) attempt {need['attempt']}{element}"


def _text(found: Mapping[str, Any]) -> None:
    click.echo(f"{found['verdict']}: {found['execution_id']} of {found['path']}, recorded as {found['recorded']}")
    divergence = found["divergence"]
    if divergence:
        click.echo(f"diverges at {divergence['message']}")
        for reason in divergence["because"]:
            click.echo(f"  {_reason(reason)}")
    for need in found["needs"]:
        click.echo(f"needs {_need(need)}: {render.text(need['config'])}")
    for note in found["notes"]:
        click.echo(f"note: {note}", err=True)


def _then(rule: Mapping[str, Any]) -> str:
    return str(rule["do"]) if "do" in rule else "allow" if rule["allow"] else "deny"


def _reason(reason: Mapping[str, Any]) -> str:
    what = f"arc to {reason['arc']}" if "arc" in reason else f"rule {reason['rule'] + 1} ({_then(reason)})"
    if reason["when"] is None:
        return f"{what}: no condition"
    holds = {True: "holds", False: "does not hold"}.get(reason["holds"], str(reason["holds"]))
    return f"{what}: {reason['when']} {holds}, with {render.text(reason['values'])}"
