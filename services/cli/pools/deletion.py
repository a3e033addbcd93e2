"""noetlctl pool delete: nothing that waits is lost by it."""

from msgspec.structs import replace

from services.cli.console import exits
from services.cli.console.confirm import confirmed
from services.cli.console.exits import CliError
from services.cli.executions.control_requests import me
from services.cli.pools import states
from services.cli.pools.changes import Manner, change, not_yours, row, tell, until
from services.cli.stack import context
from shared.bus import pool_consumer
from shared.bus.ports import Bus
from shared.runtime.stores import pools
from shared.runtime.stores.pool_state import PoolState
from shared.runtime.stores.pools import Entry


async def delete(name: str, force: bool, take_over: bool, yes: bool, manner: Manner) -> int:
    async with context.connected(context.find(manner.context_file)) as bus:
        state = await states.one(bus, name)
        if state.entry is not None and pools.owner_of(state.entry) and not take_over:
            raise not_yours(f"pool {name} {pools.belongs(state.entry)}")
        if not force:
            _refuse_with_work(state)
        confirmed(f"delete pool {name}{_held(state)}", yes)
        entry = state.entry or Entry("", 0, me(), await bus.time(), 0)
        if state.entry is not None:
            entry, state = await _without_workers(bus, name, state.entry, force, manner.timeout)
            await pools.delete(bus, name)
        await pool_consumer.remove(bus, name)
    tell([row(name, "deleted", entry, **({"waiting": _work(state)} if force else {}))], manner.output)
    return exits.OK


async def _without_workers(
    bus: Bus, name: str, entry: Entry, force: bool, timeout: float
) -> tuple[Entry, PoolState]:
    if not entry.deleting:
        entry = await change(bus, name, lambda entry, _: replace(entry, deleting=True))
    await until(bus, name, entry, lambda state: not state.status.workers, timeout)
    state = await states.one(bus, name)
    if not force and _work(state):  # it came while the workers went
        await pools.change(bus, name, me(), await bus.time(), lambda entry: replace(entry, deleting=False))
        _refuse_with_work(state)
    return entry, state


def _held(state: PoolState) -> str:
    workers, waiting = len(state.status.workers), _work(state)
    what = [f"with {workers} worker{'s' if workers != 1 else ''}"] if workers else []
    return f" {', '.join([*what, *([f'{waiting} commands stay in its queue'] if waiting else [])])}".rstrip()


def _work(state: PoolState) -> int:
    return (state.pending or 0) + (state.in_flight or 0)


def _refuse_with_work(state: PoolState) -> None:
    if _work(state):
        what = f"pool {state.name} has work: {state.pending} pending, {state.in_flight} in flight"
        raise CliError(f"{what}. Let it finish, or delete with --force: it stays in the queue", exits.CONFLICT)
