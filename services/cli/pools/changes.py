"""What changes pools: people's words are recorded, and waited for until the pools service has carried them out."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from services.cli.console import exits, render
from services.cli.console.exits import CliError
from services.cli.executions.control_requests import me
from services.cli.playbooks import diagnostics
from services.cli.pools import states
from services.cli.pools.documents import valid as _valid
from services.cli.stack import context
from services.cli.stack.remedies import pool_message
from shared.bus.ports import Bus
from shared.dsl.documents import pools as documents
from shared.dsl.documents.compile import compile_pool
from shared.dsl.documents.pools import Pool
from shared.dsl.read.pool_names import is_pool_name, name_fix
from shared.errors import Conflict
from shared.events.stamp import stamp
from shared.runtime.stores import pools
from shared.runtime.stores.documents import NotThere
from shared.runtime.stores.pool_state import PoolState
from shared.runtime.stores.pools import Drain, Entry, NotYours, Pause

POLL_S = 0.2
Done = Callable[[PoolState], bool]
How = Callable[[Entry, float], Entry]


class Manner(Struct, frozen=True, kw_only=True):
    """How a word is given, whichever it is: whether its effect is waited for, how it is shown, and on which stack."""

    output: str
    context_file: Path | None
    no_wait: bool = False
    timeout: float = 0.0


async def apply(files: tuple[Path, ...], generation: int | None, take_over: bool, manner: Manner) -> int:
    found = [_valid(file) for file in files]
    async with context.connected(context.find(manner.context_file)) as bus:
        rows = [await _apply(bus, pool, source, manner, generation=generation, take_over=take_over)
                for pool, source in found]
    tell(rows, manner.output, single=len(files) == 1)
    return exits.OK


async def create(
    name: str, backend: str, workers: int | None, slots: int | None, provides: str, manner: Manner
) -> int:
    if backend == "external" and (workers is not None or slots is not None):
        raise click.UsageError("with --backend external others run the workers: leave --workers and --slots out")
    if not is_pool_name(name):
        raise CliError(f"a pool cannot be called {name[:80]!r}: {name_fix(name)}", exits.INVALID)
    given = [each.strip() for each in provides.split(",") if each.strip()]
    source = documents.plain(name, workers, backend=backend, slots=slots, provides=given)
    compiled = compile_pool(source, file="pool")
    if compiled.document is None:
        diagnostics.report(compiled.diagnostics)
        raise CliError("such a pool cannot be made", exits.INVALID)
    async with context.connected(context.find(manner.context_file)) as bus:
        tell([await _apply(bus, compiled.document, source, manner, new=True)], manner.output)
    return exits.OK


async def _apply(
    bus: Bus, pool: Pool, source: str, manner: Manner, *, generation: int | None = None, new: bool = False,
    take_over: bool = False,
) -> dict[str, Any]:
    try:
        done, entry = await pools.apply(
            bus, pool, source, me(), await bus.time(), generation=generation, new=new, take_over=take_over)
    except NotYours as error:
        raise not_yours(str(error)) from None
    except Conflict as error:
        raise CliError(str(error), exits.CONFLICT) from None
    if not manner.no_wait and done != "unchanged":
        await until(bus, pool.name, entry, _stands, manner.timeout)
    return row(pool.name, done, entry)


def not_yours(text: str) -> CliError:
    return CliError(f"{text} (--take-over)", exits.CONFLICT)


def _stands(state: PoolState) -> bool:
    """Nothing of what was asked for is on its way; workers that others start come when they come."""
    ours = state.pool is not None and state.pool.ours
    return state.status.settled if ours else state.status.state != "waiting"


async def diff(files: tuple[Path, ...], exit_code: bool, output: str, context_file: Path | None) -> int:
    found = [_valid(file)[0] for file in files]
    async with context.connected(context.find(context_file)) as bus:
        known = await pools.everything(bus)
    rows = [_compared(pool, known.get(pool.name)) for pool in found]
    if render.is_text(output):
        for each in rows:
            _tell_diff(each)
    else:
        render.rows(rows, (), output, "name")
    return exits.ERROR if exit_code and any(each["changes"] for each in rows) else exits.OK


def _compared(pool: Pool, entry: Entry | None) -> dict[str, Any]:
    import msgspec

    after = msgspec.to_builtins(pool)
    before: dict[str, Any] = {}
    if entry is not None:
        before = msgspec.to_builtins(replace(pools.parse(entry), workers=entry.workers))
    if pool.workers is None:
        after["workers"] = before.get("workers", 1)
    if not pool.ours or pool.scales is not None:
        after["workers"] = before["workers"] = None
    changes = [
        {"field": field, "from": before.get(field), "to": value}
        for field, value in after.items() if field != "name" and before.get(field) != value
    ]
    return {"name": pool.name, "exists": entry is not None, "generation": entry.generation if entry else 0,
            "changes": changes}


def _tell_diff(row: dict[str, Any]) -> None:
    what = "changes" if row["exists"] and row["changes"] else "unchanged" if row["exists"] else "new"
    click.echo(f"pool {row['name']}: {what}")
    for each in row["changes"]:
        before = "" if not row["exists"] else f"{_shown(each['from'])} → "
        click.echo(f"  {each['field']}: {before}{_shown(each['to'])}")


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


async def scale(name: str, workers: int | None, manner: Manner) -> int:
    """`workers` None: by demand. A number holds until then, also where the document says how to scale."""
    def scaled(entry: Entry, _now: float) -> Entry:
        pool = pools.parse(entry)
        if pool.backend == "external":
            raise CliError(f"pool {name} is external: scale it where its workers run")
        if not pool.ours:
            raise CliError(f"pool {name} is scaled by KEDA: annotate its ScaledObject with "
                           f"autoscaling.keda.sh/paused-replicas={'N' if workers is None else workers}")
        if workers is not None:
            return replace(entry, workers=workers, pinned=pool.scales is not None)
        if pool.scales is None:
            raise CliError(f"pool {name} does not say how to scale: add autoscaling: {{min, max, target}} to its spec")
        return replace(entry, pinned=False)

    return await _say(name, scaled, "scaled", lambda state: state.status.settled, manner)


async def pause(name: str, note: str, for_s: float | None, manner: Manner) -> int:
    _check(note)

    def paused(entry: Entry, now: float) -> Entry:
        return replace(entry, paused=Pause(me(), now, note, now + for_s if for_s else 0.0))

    return await _say(name, paused, "paused", lambda state: not state.delivers, manner)


async def resume(name: str, manner: Manner) -> int:
    return await _say(name, lambda entry, _: replace(entry, paused=None, drain=None), "resumed",
                      lambda state: state.delivers and _stands(state), manner)


async def restart(name: str, manner: Manner) -> int:
    def again(entry: Entry, _now: float) -> Entry:
        pool = pools.parse(entry)
        if pool.backend == "external":
            raise CliError(f"pool {name} is external: restart its workers where they run")
        if not pool.ours:
            raise CliError(f"pool {name} is scaled by KEDA, which would undo it: kubectl rollout restart deployment …")
        return replace(entry, restarts=entry.restarts + 1)

    return await _say(name, again, "restarted", lambda state: state.status.settled, manner)


async def drain(name: str, note: str, within_s: float, manner: Manner) -> int:
    """Once more is a new drain."""
    _check(note)
    async with context.connected(context.find(manner.context_file)) as bus:
        asked = Drain(me(), await bus.time(), within_s, note)
        entry = await change(bus, name, lambda entry, _: replace(entry, drain=asked))
        if manner.no_wait:
            tell([row(name, "draining", entry)], manner.output)
            return exits.OK
        state = await until(bus, name, entry, lambda state: _report(state, asked) is not None, within_s + 30.0)
    report = _report(state, asked)
    assert report is not None  # it was waited for
    counts = {"finished": report.finished, "left": report.left, "handed_back": report.handed_back}
    tell([row(name, "drained", entry, **counts)], manner.output)
    return exits.TIMED_OUT if report.left else exits.OK


def _report(state: PoolState, asked: Drain) -> Any:
    drain = state.status.drain
    return drain.report if drain is not None and drain.at == asked.at else None


async def _say(name: str, how: How, word: str, done: Done, manner: Manner) -> int:
    async with context.connected(context.find(manner.context_file)) as bus:
        entry = await change(bus, name, how)
        if not manner.no_wait:
            await until(bus, name, entry, done, manner.timeout)
    tell([row(name, word, entry)], manner.output)
    return exits.OK


async def change(bus: Bus, name: str, how: How) -> Entry:
    """`how` gets the broker's time beside the entry."""
    now = await bus.time()

    def on_a_living_one(entry: Entry) -> Entry:
        if entry.deleting:
            raise CliError(f"pool {name} is being deleted", exits.CONFLICT)
        return how(entry, now)

    try:
        return await pools.change(bus, name, me(), now, on_a_living_one)
    except NotThere as error:
        raise CliError(str(error), exits.NOT_FOUND) from None
    except Conflict as error:
        raise CliError(str(error), exits.CONFLICT) from None


async def until(bus: Bus, name: str, entry: Entry, done: Done, within_s: float) -> PoolState:
    """The pool once the pools service has done what this generation asks; exit code 6 when it takes too long."""
    deadline = time.monotonic() + within_s
    while True:
        state = await states.one(bus, name)
        if state.status.generation >= entry.generation and done(state):
            return state
        if time.monotonic() > deadline:
            why = f": {pool_message(state)}" if state.message else ""
            text = f"recorded, but pool {name} is {state.state} after {within_s:g} s{why}"
            raise CliError(f"{text} (noetlctl pool describe {name})", exits.TIMED_OUT)
        await asyncio.sleep(POLL_S)


def row(name: str, action: str, entry: Entry, **more: Any) -> dict[str, Any]:
    """What became of a pool; `more` are counts."""
    return {"name": name, "action": action, "generation": entry.generation, "workers": entry.workers,
            "by": entry.by, "at": stamp(entry.at), **more}


def tell(rows: Sequence[dict[str, Any]], output: str, *, single: bool = True) -> None:
    render.one_or_rows(rows, single, (), output, "name", _line)


def _line(done: Mapping[str, Any]) -> str:
    more = {key: value for key, value in done.items() if key in ("finished", "left", "handed_back", "waiting")}
    counts = ", ".join(f"{value} {key.replace('_', ' ')}" for key, value in more.items())
    return f"{done['action']} pool {done['name']} (generation {done['generation']})" + (f": {counts}" if counts else "")


def _check(note: str) -> None:
    if len(note) > pools.MAX_NOTE:
        raise click.UsageError(f"a note has at most {pools.MAX_NOTE} characters")
