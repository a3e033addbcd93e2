"""noetlctl describe: everything the log says about an execution."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli.console import execution_ids, exits, render, screen, times
from services.cli.stack import context

if TYPE_CHECKING:
    from services.cli.executions.logbook import Logbook

RECENT = 10  # events
MAX_RUNS = 200  # lines about runs; JSON has them all
RUN_COLUMNS = (
    render.Column("STEP", "step"),
    render.Column("RUN", lambda row: row["run_id"].rpartition(":")[2]),
    render.Column("STATUS", "status", colour=True),
    render.Column("TOOK", lambda row: _took(row["started_at"] or row["scheduled_at"], row["finished_at"])),
    render.Column("TASKS", lambda row: ", ".join(map(_task, row["tasks"]))),
    render.Column("LOOP", lambda row: _loop(row["loop"])),
    render.Column("NOTE", lambda row: _note(row)),
    render.Column("POOL", "pool", wide=True),
    render.Column("WORKER", "worker", wide=True),
    render.Column("LEASES", "leases", wide=True),
)
HELD_COLUMNS = (
    render.Column("RUN", "run_id"), render.Column("WORKER", "worker"),
    render.Column("PID", lambda row: row["pid"] or ""),
    render.Column("SINCE", lambda row: times.local(times.parsed(row["since"]))),
    render.Column("LAST WORD", lambda row: times.local(times.parsed(row["last"]))),
    render.Column("LEASE", lambda row: row["ended"] or "held", colour=True),
)
CHILD_COLUMNS = (
    render.Column("CHILD", "execution_id"), render.Column("STATUS", "status", colour=True),
    render.Column("PLAYBOOK", "path"), render.Column("RUN", "run_id"),
)
ASKED_COLUMNS = (
    render.Column("ASKED", lambda row: times.local(times.parsed(row["at"]))), render.Column("WHAT", "what"),
    render.Column("BY", "by"), render.Column("REASON", "reason"),
)
EVENT_COLUMNS = (
    render.Column("SEQ", "seq"), render.Column("TIME", lambda row: times.shown(row["ts"], exact=True)),
    render.Column("EVENT", "event_type"),
    render.Column("STATUS", "status"), render.Column("ABOUT", lambda row: row["task_run_id"] or row["step_run_id"]),
)


@click.command("describe", epilog="Example: noetlctl describe 4f1c… -o wide")
@execution_ids.argument
@render.option()
@context.option
def command(execution: str, output: str, context_file: Path | None) -> int:
    """Show everything the log says about an execution: who asked, runs, waits, errors, children, recent events."""
    from services.cli.console import run_async

    return run_async.run(_describe(execution, output, context_file))


async def _describe(execution_id: str, output: str, context_file: Path | None) -> int:
    from services.cli.executions import logbook, set_aside

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        found = await described(await logbook.read(bus, execution_id, settings.partitions))
        found["aside"] = [] if found["finished_at"] else await set_aside.shown(bus, execution_id)
    render.document(found, output, "execution_id", lambda: tell(found, output))
    return exits.OK


async def described(book: "Logbook") -> dict[str, Any]:
    from services.cli.executions.description import Portrait, shown
    from services.cli.executions.result_output import failure_of
    from shared.events.record import envelopes

    portrait = Portrait(book.execution_id)
    for record in book.records:
        portrait.apply(record)
    recent = [
        {"seq": seq, **{key: envelope[key] for key in ("ts", "event_type", "status", "step_run_id", "task_run_id")}}
        for seq, record in book.entries[-RECENT:] for envelope in envelopes(record)
    ]
    return {
        **shown(portrait), "place": await _place(book, portrait.digest, portrait.error),
        "failure": await failure_of(book.bus, portrait), "recent": recent[-RECENT:],
    }


async def _place(book: "Logbook", digest: str, error: dict[str, Any] | None) -> dict[str, Any] | None:
    """Where in the playbook an error comes from."""
    from shared.errors import NoetlError

    step = (error or {}).get("step")
    if not digest or not isinstance(step, str):
        return None
    line = 0
    try:
        plan = await book.plans.load(digest)
        line = plan.steps[step].line if step in plan.steps else 0
    except NoetlError:
        pass  # its source is gone from the catalogue: the names are still told
    return {"step": step, "task": (error or {}).get("task"), "line": line or None}


def tell(found: Mapping[str, Any], output: str) -> None:
    from services.cli.executions import failure_lines
    from services.cli.executions.set_aside import sentence

    status = screen.style(found["status"], fg=render.COLOURS.get(found["status"]))
    parent = found["parent"]
    render.fields({
        "execution": f"{found['execution_id']}  {status}",
        "playbook": f"{found['path']} {found['version']}".rstrip() + f"  {found['digest'][:12]}",
        "labels": render.labels(found["labels"]),
        "asked": f"{times.local(times.parsed(found['requested_at']))}" + (f" by {found['by']}" if found["by"] else ""),
        "key": found["request_id"],
        "priority": found["priority"],
        "waits": found["waits"],
        "aside": "; ".join(map(sentence, found.get("aside", ()))),
        "took": _took(found["requested_at"], found["finished_at"]),
        "parent": f"{parent['execution_id']}, run {parent['run_id']}" if parent else "",
        "rerun of": found["rerun_of"],
        "error": _error(found["error"], found["place"]),
    })
    for each in failure_lines.lines(found["failure"]):
        click.echo(each)
    runs = found["runs"]
    more = len(runs) - MAX_RUNS
    _section(runs[-MAX_RUNS:], RUN_COLUMNS, output, f"{more} earlier runs: -o json has them" if more > 0 else "")
    _section(_held_again(runs[-MAX_RUNS:]), HELD_COLUMNS, output)
    _section(found["children"], CHILD_COLUMNS, output)
    _section(found["control"], ASKED_COLUMNS, output)
    left = found["events"] - len(found["recent"])
    _section(found["recent"], EVENT_COLUMNS, output, f"{left} earlier events: noetlctl events" if left else "")


def _held_again(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The leases of runs that have lost one."""
    return [{"run_id": run["run_id"], **held} for run in runs for held in run["held"]
            if any(each["ended"] == "lost" for each in run["held"])]


def _section(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[render.Column], output: str, before: str = ""
) -> None:
    if not rows:
        return
    click.echo(f"\n({before})" if before else "")
    for line in render.table_lines(rows, columns, output):
        click.echo(line)


def _took(start: str, end: str) -> str:
    from datetime import UTC, datetime

    return times.between(times.parsed(start) if start else None, times.parsed(end) if end else None, datetime.now(UTC))


def _task(task: Mapping[str, Any]) -> str:
    again = f"×{task['attempts']}" if task["attempts"] > 1 else ""
    return f"{task['task']}{again}" + ("" if task["status"] == "done" else f" ({task['status']})")


def _loop(loop: Mapping[str, Any] | None) -> str:
    if loop is None:
        return ""
    return f"{loop['done'] + loop['failed']}/{loop['total']}" + (f", {loop['failed']} failed" if loop["failed"] else "")


def _note(run: Mapping[str, Any]) -> str:
    if run["waits"]:
        return str(run["waits"])
    if run["error"]:
        return _error(run["error"], None)
    return f"undoes {run['compensates']}" if run["compensates"] else ""


def _error(error: Mapping[str, Any] | None, place: Mapping[str, Any] | None) -> str:
    if not error:
        return ""
    text = f"{error.get('kind', 'error')}: {error.get('message', '')}"
    if not place:
        return text
    where = [f"step {place['step']}", *([f"task {place['task']}"] if place["task"] else [])]
    return f"{text} (in {', '.join(where)}" + (f", line {place['line']})" if place["line"] else ")")
