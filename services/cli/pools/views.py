"""What shows pools: list, describe, workers, top."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from services.cli.console import exits, render, screen, times
from services.cli.console.render import Column
from services.cli.pools import states
from services.cli.stack import context
from services.cli.stack.remedies import pool_message
from shared.events.run_index import in_brackets
from shared.events.stamp import stamp
from shared.runtime.stores.pool_state import PoolState, WorkerState


def age(seconds: float | None) -> str:
    return times.length(seconds) if seconds is not None else ""


def used(tool: Mapping[str, Any] | None) -> str:
    return f"{tool['busy']}/{tool['size']}" if tool is not None else ""


COLUMNS = (
    Column("NAME", "name"),
    Column("BACKEND", "backend"),
    Column("DESIRED", "desired"),
    Column("READY", "ready"),
    Column("BUSY", "busy"),
    Column("PENDING", "pending"),
    Column("IN-FLIGHT", "in_flight"),
    Column("OLDEST", lambda row: age(row["oldest_s"])),
    Column("PYTHON", lambda row: used(row["tools"].get("python"))),
    Column("STATE", "state", colour=True),
    Column("SLOTS", "slots", wide=True),
    Column("PROVIDES", lambda row: ",".join(row["provides"]), wide=True),
    Column("GENERATION", "generation", wide=True),
    Column("MESSAGE", "message", wide=True),
)
WORKERS = (
    Column("NAME", "name"),
    Column("POOL", "pool"),
    Column("STATE", "state", colour=True),
    Column("SLOTS", "slots"),
    Column("HELD", "held"),
    Column("PYTHON", lambda row: used(row["tools"].get("python"))),
    Column("SINCE", lambda row: times.shown(row["since"])),
    Column("SILENT-SINCE", lambda row: times.shown(row["silent_since"])),
    Column("HOST", "host", wide=True),
    Column("PID", "pid", wide=True),
    Column("VERSION", "version", wide=True),
    Column("PROVIDES", lambda row: ",".join(row["provides"]), wide=True),
    Column("FAILURES", "failures", wide=True),
    Column("LOG", "log", wide=True),
)


def pool_row(state: PoolState) -> dict[str, Any]:
    pool = state.pool
    return {
        "name": state.name, "backend": state.backend, "desired": state.desired, "ready": state.ready,
        "busy": state.busy, "pending": state.pending, "in_flight": state.in_flight,
        "oldest_s": round(state.oldest_s, 3) if state.oldest_s is not None else None,
        "state": state.state, "message": pool_message(state),
        "slots": pool.slots if pool is not None and state.backend != "external" else None,
        "provides": list(pool.provides) if pool is not None else [],
        "generation": state.entry.generation if state.entry is not None else 0,
        "tools": {kind: {"busy": taken, "size": size} for kind, (taken, size) in state.tools().items()},
    }


def worker_row(worker: WorkerState) -> dict[str, Any]:
    runs = [{"execution_id": each[0], "run_id": each[1], "index": each[2]} for each in worker.held]
    return {
        "name": worker.name, "pool": worker.pool, "state": worker.state, "slots": worker.slots, "held": len(runs),
        "since": stamp(worker.since) if worker.since else "", "host": worker.host, "pid": worker.pid,
        "version": worker.version, "provides": list(worker.provides), "failures": worker.failures,
        "ended": worker.ended, "log": worker.log, "runs": runs,
        "silent_since": stamp(worker.silent_since) if worker.silent_since else "",
        "tools": {busy.kind: {"busy": busy.taken, "size": busy.size, "waiting": busy.waiting, "calls": [
            {"execution_id": call.execution_id, "run_id": call.run_id, "index": call.index, "step": call.step,
             "task": call.task, "since": stamp(call.since)} for call in busy.calls]} for busy in worker.tools},
    }


async def show_list(output: str, context_file: Path | None) -> int:
    async with context.connected(context.find(context_file)) as bus:
        found = await states.everyone(bus)
    render.rows([pool_row(state) for state in found], COLUMNS, output, "name")
    return exits.OK


async def top(every: float, output: str, context_file: Path | None) -> int:
    async with context.connected(context.find(context_file)) as bus:
        while True:
            found = await states.everyone(bus)
            rows = sorted(map(pool_row, found), key=lambda row: (-(row["pending"] or 0), row["name"]))
            if not sys.stdout.isatty() or output in ("json", "jsonl"):
                render.rows(rows, COLUMNS, output, "name")
                return exits.OK
            lines = render.table_lines(rows, COLUMNS, output)
            click.echo(screen.control("\x1b[2J\x1b[1;1H"), nl=False)
            click.echo("\n".join(lines))
            await asyncio.sleep(every)


async def workers(name: str | None, output: str, context_file: Path | None) -> int:
    async with context.connected(context.find(context_file)) as bus:
        found = [await states.one(bus, name)] if name is not None else await states.everyone(bus)
    rows = [worker_row(worker) for state in found for worker in state.workers]
    render.rows(rows, WORKERS, output, "name")
    return exits.OK


async def describe(name: str, output: str, context_file: Path | None) -> int:
    async with context.connected(context.find(context_file)) as bus:
        state = await states.one(bus, name)
    shown = described(state)
    render.document(shown, output, "name", lambda: _tell(shown))
    return exits.OK


def described(state: PoolState) -> dict[str, Any]:
    entry, pool, paused = state.entry, state.pool, state.paused
    return {
        **pool_row(state),
        "labels": pool.labels if pool is not None else {},
        "owner": pool.owner if pool is not None else "",
        "autoscaling": _autoscaling(state),
        "drain_s": pool.drain_s if pool is not None and state.backend != "external" else None,
        "silent_s": pool.silent_s if pool is not None and state.backend == "process" else None,
        "tools_disabled": list(pool.tools_disabled) if pool is not None else [],
        "by": entry.by if entry is not None else "",
        "at": stamp(entry.at) if entry is not None else "",
        "restarts": entry.restarts if entry is not None else 0,
        "delivers": state.delivers,
        "paused": None if paused is None else {
            "by": paused.by, "at": stamp(paused.at), "note": paused.note,
            "until": stamp(paused.until) if paused.until else None,
        },
        "drain": _drain(state),
        "workers": [worker_row(worker) for worker in state.workers],
        "document": entry.source if entry is not None else "",
    }


def _autoscaling(state: PoolState) -> dict[str, Any] | None:
    if state.pool is None or state.entry is None or (scaling := state.pool.autoscaling) is None:
        return None
    bounds = {"min": scaling.least, "max": scaling.most, "target": scaling.target, "calm_s": scaling.calm_s}
    pinned = {"pinned": state.entry.pinned}
    return {"mode": scaling.mode, **(bounds | pinned if scaling.mode == "native" else {})}


def _drain(state: PoolState) -> dict[str, Any] | None:
    if state.entry is None or state.entry.drain is None:
        return None
    asked, now = state.entry.drain, state.status.drain
    report = now.report if now is not None and now.at == asked.at else None
    counts = {name: getattr(report, name) if report is not None else None
              for name in ("finished", "left", "handed_back")}
    return {"by": asked.by, "at": stamp(asked.at), "timeout_s": asked.timeout_s, "note": asked.note,
            "over": report is not None, **counts}


def _tell(shown: Mapping[str, Any]) -> None:
    desired = "" if shown["desired"] is None else f", {shown['desired']} workers wanted"
    click.echo(f"pool {shown['name']}: {shown['state']}, backend {shown['backend']}{desired}, {shown['ready']} ready")
    if shown["message"]:
        click.echo(f"  {shown['message']}")
    oldest = f", the oldest for {age(shown['oldest_s'])}" if shown["oldest_s"] is not None else ""
    click.echo(f"  pending {shown['pending']}{oldest}; in flight {shown['in_flight']}")
    if (scaling := shown["autoscaling"]) is not None:
        click.echo(f"  {_scaled(shown['name'], scaling)}")
    if shown["owner"]:
        click.echo(f"  belongs to {shown['owner']}")
    if shown["provides"]:
        click.echo(f"  provides {', '.join(shown['provides'])}")
    if (paused := shown["paused"]) is not None:
        until = f" until {times.shown(paused['until'])}" if paused["until"] else ""
        note = f": {paused['note']}" if paused["note"] else ""
        click.echo(f"  paused by {paused['by']} at {times.shown(paused['at'])}{until}{note}")
    if (drain := shown["drain"]) is not None and drain["over"]:
        click.echo(f"  drained: {drain['finished']} finished, {drain['left']} left, {drain['handed_back']} handed back")
    if shown["by"]:
        click.echo(f"  generation {shown['generation']} by {shown['by']} at {times.shown(shown['at'])}")
    for worker in shown["workers"]:
        click.echo(f"  worker {worker_line(worker)}")
        for kind, tool in worker["tools"].items():
            click.echo(f"    {kind}: {tool['busy']} of {tool['size']} busy, {tool['waiting']} wait for a turn")
            for call in tool["calls"]:
                place = call["run_id"] + in_brackets(call["index"])
                click.echo(f"      execution {call['execution_id']} {place} task {call['task']} since "
                           f"{times.shown(call['since'])}")


def _scaled(name: str, scaling: Mapping[str, Any]) -> str:
    if scaling["mode"] == "keda":
        return "scaled by KEDA"
    if scaling["pinned"]:
        return f"autoscaling is off since somebody set the workers: noetlctl pool scale {name} auto"
    return (f"scales by demand: {scaling['min']} to {scaling['max']} workers, one for each {scaling['target']}, "
            f"down after {scaling['calm_s']:g} s")


def worker_line(worker: Mapping[str, Any]) -> str:
    """Of one that is silent nobody knows what it holds."""
    last = f", its last life ended with {worker['ended']}" if worker["ended"] and worker["failures"] else ""
    life = f"pid {worker['pid']}, since {times.shown(worker['since']) or '-'}{last}"
    if worker["silent_since"]:
        return f"{worker['name']}: silent since {times.shown(worker['silent_since'])}, {life}"
    return f"{worker['name']}: {worker['state']}, {worker['held']} of {worker['slots']} slots, {life}"
