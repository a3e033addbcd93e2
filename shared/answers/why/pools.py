"""Why nobody has taken a command: its pool is not there, paused, without workers or full, or it is not its turn."""

from collections import Counter
from typing import Any, TypeGuard

from msgspec.structs import replace

from shared.answers.why.facts import Pool, Queued, Reason, Worker, World
from shared.answers.why.remedies import GOES_ON, Remedy, remedy, start
from shared.answers.why.tool_turns import no_turn
from shared.answers.why.view import View
from shared.engine.pools.reconcile import SILENT_S
from shared.events.command import Command
from shared.events.stamp import seconds, stamp

PATIENCE_S = 2.0  # what is younger is on its way
FIRSTS = 4        # commands under way for every slot, each the first of its execution
SWEEP_S = 20.0    # how often a scheduler looks for commands that nobody has
MENDED_S = 2.5 * SWEEP_S  # it issues again what it has found twice
UNATTENDED = "unattended"
MAX_LISTED = 20


def is_silent(worker: Worker | None, now: float) -> bool:
    return worker is None or now - worker.heard > SILENT_S


def not_taken(view: View, world: World, command: Command, pool: Pool) -> Reason:
    queued = world.queued.get((command.run_id, command.index))
    workers = [worker for worker in world.of(pool.name) if not is_silent(worker, world.now) and not worker.draining]
    slots, busy = sum(worker.slots for worker in workers), sum(len(worker.held) for worker in workers)
    values: dict[str, Any] = {"pool": pool.name, "workers": [worker.name for worker in workers], "slots": slots,
                              "busy": busy, "queued": pool.pending}
    if not pool.known:
        return _unknown(pool, bool(workers), values)
    if pool.paused:
        return _paused(pool, values)
    if is_stranded(queued, pool):
        return _stranded(world, queued, pool, values)
    if not workers:
        return _no_workers(pool, queued, values)
    if queued is None:
        return _held_back(view, world, command, pool, workers, values)
    if (waits := no_turn(view, command, pool, workers, start_worker(pool))) is not None:
        return replace(waits, since=_stamp(queued.at))
    return _queued(queued, pool, workers, values)


def _unknown(pool: Pool, has_workers: bool, values: dict[str, Any]) -> Reason:
    """Where workers of it run, somebody knows the pool, and its consumer was lost."""
    text = f"pool {pool.name} does not exist on the server: nobody takes its commands"
    helps = remedy("add_pool", start_worker(pool), pool=pool.name)
    if has_workers:
        text = f"pool {pool.name} has no consumer on the server: its workers run, and none gets its commands"
        helps = remedy("pool_made", pool=pool.name)
    return Reason("pool.unknown", "blocked", text, values=values, remedy=helps)


def is_stranded(queued: Queued | None, pool: Pool) -> TypeGuard[Queued]:
    """In the queue, and neither waiting to be delivered nor with anyone for the consumer."""
    if queued is None or not 0 < queued.seq <= pool.delivered:
        return False
    return queued.seq <= pool.floor or not pool.held


def _stranded(world: World, queued: Queued, pool: Pool, values: dict[str, Any]) -> Reason:
    values = {**values, "message": queued.seq, "floor": pool.floor}
    if world.members is not None and not world.members.get("scheduler"):
        return Reason("scheduler.gone", "blocked", "its command is lost in the queue, and no scheduler is running to "
                      "issue it again", values=values, since=_stamp(queued.at),
                      remedy=start("scheduler"))
    return Reason(
        "command.stranded", "blocked", f"its command is message {queued.seq} in the queue of pool {pool.name}, and the "
        f"pool's consumer takes it for done (up to {pool.floor}): nobody gets it. The scheduler issues it again when "
        f"it has found that twice, {SWEEP_S:g} s apart", values=values, since=_stamp(queued.at),
        remedy=GOES_ON, mended_s=MENDED_S,
    )


def _no_workers(pool: Pool, queued: Queued | None, values: dict[str, Any]) -> Reason:
    text, helps = f"pool {pool.name} has no workers", start_worker(pool)
    if pool.managed:
        text += f": {pool.wanted} are wanted, and it is {pool.state}" + (f" ({pool.message})" if pool.message else "")
        values |= {"wanted": pool.wanted, "state": pool.state, "message": pool.message}
    if pool.scaled:
        text += ": KEDA starts some when it hears of the demand"
    if pool.silent:
        values |= {"silent": {name: stamp(at) for name, at in pool.silent.items()}}
    replaced = pool.managed and pool.state == "silent"
    if pool.managed and pool.wanted and pool.state != UNATTENDED:
        helps = remedy("look_at_pool", pool=pool.name)
    if replaced:
        helps = remedy("is_replaced", helps)
    return Reason("pool.no_workers", "blocked", text, values=values, remedy=helps,
                  since=_stamp(queued.at) if queued is not None else "", moved_by="itself" if replaced else None)


def _paused(pool: Pool, values: dict[str, Any]) -> Reason:
    by = f" by {pool.paused_by}" if pool.paused_by else ""
    note = f": {pool.paused_note}" if pool.paused_note else ""
    helps = remedy("resume_pool" if pool.state else "resume_consumer", pool=pool.name)
    return Reason(
        "pool.paused", "blocked", f"pool {pool.name} was paused{by}{note}; what its workers have goes on, nothing new "
        "is delivered", values={**values, "by": pool.paused_by, "note": pool.paused_note},
        since=_stamp(pool.paused_at), until=_stamp(pool.paused_until), remedy=helps,
    )


def _queued(queued: Queued, pool: Pool, workers: list[Worker], values: dict[str, Any]) -> Reason:
    is_out = 0 < queued.seq <= pool.delivered
    values = {**values, "before": queued.before, "held_by": holders(workers), "delivered": is_out}
    slots, busy, since = values["slots"], values["busy"], _stamp(queued.at)
    if queued.before >= 0:
        values["before"] += max(0, pool.held - busy)  # those that workers have got and not begun
    before = f", and {values['before']} commands stand before it" if queued.before >= 0 else ""
    if busy >= slots:
        return Reason(
            "pool.full", "blocked", f"all {slots} slots of pool {pool.name} are busy{before}: {_shares(workers)}",
            values=values, since=since, remedy=remedy("slot_frees", start_worker(pool)),
        )
    text = f"it is in the queue of pool {pool.name}, {busy} of {slots} slots are busy{before}"
    if is_out:
        text = f"a worker of pool {pool.name} has got its command and has not begun it; " \
            f"it is delivered again if that worker is gone for {pool.lease_s:g} s"
    return Reason("pool.queued", "blocked", text, values=values, since=since,
                  remedy=remedy("is_taken"))


def _held_back(
    view: View, world: World, command: Command, pool: Pool, workers: list[Worker], values: dict[str, Any]
) -> Reason:
    """Neither in the queue nor with a worker. Nothing is held back while there is room. What its family has under
    way there is not known here, so an execution that has nothing may wait for its turn as well."""
    scheduled = view.heard.get("scheduler", (0, ""))[1]
    if world.members is not None and not world.members.get("scheduler"):
        return Reason("scheduler.gone", "blocked", "no scheduler is running: nobody sends its command to the pool",
                      values=values, since=scheduled, remedy=start("scheduler"))
    if scheduled and world.now - seconds(scheduled) < PATIENCE_S:
        return Reason("scheduler.deciding", "running", "it has just been scheduled, its command is on its way",
                      values=values, since=scheduled, remedy=GOES_ON)
    held = {key[1:] for worker in workers for key in worker.held if key[0] == view.execution_id}
    own, most = len(held | world.queued.keys()), FIRSTS * values["slots"]
    room = sum(worker.room for worker in workers)
    if not own and pool.pending + pool.held < min(room or most, most):
        return _astray(world, command, values)
    return Reason(
        "turn", "blocked", f"the scheduler holds it back until it is its turn: this execution has {own} under way in "
        f"pool {command.pool}, whose workers have room for {room} beyond the first of each family (at most {most} "
        f"in all); {_shares(workers)}",
        values={**values, "under_way": own, "room": room, "most": most, "priority": command.priority,
                "held_by": holders(workers)},
        remedy=remedy("others_end", start_worker(pool)),
    )


def _astray(world: World, command: Command, values: dict[str, Any]) -> Reason:
    cursor = world.cursors.get("scheduler")
    if cursor is not None and cursor < command.cause:
        left = f"at most {command.cause - cursor} records of the partition stand before it"
        text = f"the scheduler has not sent its command yet: {left}"
        return Reason("scheduler.behind", "blocked", text, values={**values, "record": command.cause, "cursor": cursor},
                      remedy=GOES_ON)
    return Reason(
        "command.lost", "blocked", "nobody has it and its command is not in the queue: it got lost, and the scheduler "
        f"sends it again when it has found that twice, {SWEEP_S:g} s apart", values=values,
        remedy=GOES_ON, mended_s=MENDED_S,
    )


def _stamp(at: float) -> str:
    return stamp(at) if at else ""


def holders(workers: list[Worker]) -> dict[str, int]:
    """How many runs each execution has in the workers' hands; the most first."""
    held = Counter(key[0] for worker in workers for key in worker.held)
    return dict(held.most_common(MAX_LISTED))


def _shares(workers: list[Worker]) -> str:
    held = holders(workers)
    return ", ".join(f"execution {who} has {count}" for who, count in list(held.items())[:5]) or "nobody holds any"


def start_worker(pool: Pool) -> Remedy:
    if pool.scaled:
        return remedy("look_at_scaler", pool=pool.name)
    if pool.managed and pool.state == UNATTENDED:
        return remedy("start_pools")
    if pool.managed:
        return remedy("scale_pool", pool=pool.name, workers=pool.wanted + 1)
    return remedy("start_worker", pool=pool.name)
