"""Why a run, or an iteration, that a worker should have is not done: it runs, its worker is silent, it pauses between
attempts, or nobody has taken it (`why_pools.py`)."""

from typing import Any

from msgspec.structs import replace

from shared.engine.why_facts import Pool, Reason, Worker, World
from shared.engine.why_loops import progress
from shared.engine.why_pools import is_silent, not_taken, start_worker
from shared.engine.why_view import Hold, View
from shared.engine.why_waits import backoff
from shared.events.beat import Key
from shared.events.command import Command
from shared.events.index import frame_of
from shared.events.stamp import seconds, stamp

BEAT_S = 1.5         # how often a worker says that it is there
FORGOTTEN_S = 10.0   # beats are kept for so long


def is_on_its_way(view: View, world: World, command: Command) -> bool:
    """Nobody has it, and it is not in the queue: the scheduler is asked about it."""
    at = command.run_id, command.index
    hold = view.holds.get(at)
    if at in world.queued or world.holder((view.execution_id, *at)) is not None:
        return False
    return hold is None or hold.state != "held" or _has_let_go(hold, world, view, command)


def due(view: View, world: World, command: Command) -> Reason:
    """A worker should have it."""
    at = command.run_id, command.index
    hold = view.holds.get(at)
    holder = world.holder((view.execution_id, *at))
    pool = world.pools.get(command.pool, Pool(command.pool))
    if holder is not None and not _is_with(hold, world, (view.execution_id, *at)):
        found = _taken(holder, pool)
    elif hold is not None and hold.state == "held" and not _has_let_go(hold, world, view, command):
        found = _held(view, world, hold, pool)
    else:
        found = not_taken(view, world, command, pool)
        if hold is not None and hold.state == "held":
            found = replace(found, text=f"{found.text}; {hold.worker} had it before and has let go of it",
                            values={**found.values, "came_back_from": hold.worker, "leases": hold.holds})
    found = _as_loop(view, command, found) if command.run_id in view.schedule.loops and command.index < 0 else found
    return replace(found, step=command.step, run_id=command.run_id, index=command.index,
                   since=found.since or view.times.get(command.run_id, ""))


def _as_loop(view: View, command: Command, found: Reason) -> Reason:
    """The claim of a loop's next rows, or a loop that one worker runs as a whole."""
    if frame_of(command.index) >= 0:
        return replace(found, text=f"the claim of its next rows: {found.text}",
                       values={**found.values, "frame": frame_of(command.index)})
    how = progress(view, command.run_id)
    flight = f"{how['in_flight']} in flight, at most {how['max_in_flight']}"
    done = f"{how['ended']} of {how['count']} iterations are done, {flight}"
    return replace(found, text=f"the whole loop is one worker's: {found.text}; {done}", values={**found.values, **how})


def _is_with(hold: Hold | None, world: World, key: Key) -> bool:
    """Who has it by the log says so too."""
    if hold is None or hold.state != "held" or _is_anew(hold, world):
        return False
    worker = world.worker(hold.worker)
    return worker is not None and key in worker.held


def _is_anew(hold: Hold, world: World) -> bool:
    """The worker of that name is another life."""
    worker = world.worker(hold.worker)
    return worker is not None and worker.started > seconds(hold.last)


def _has_let_go(hold: Hold, world: World, view: View, command: Command) -> bool:
    """Its worker says that it holds other things, and has said so after its last word about this."""
    worker = world.worker(hold.worker)
    if worker is None or worker.heard <= seconds(hold.last) + BEAT_S or _is_anew(hold, world):
        return False
    return (view.execution_id, command.run_id, command.index) not in worker.held


def _held(view: View, world: World, hold: Hold, pool: Pool) -> Reason:
    if hold.retried is not None and seconds(hold.last) + hold.retried.delay > world.now:
        return _short_pause(view, hold)
    worker = world.worker(hold.worker)
    values: dict[str, Any] = {"worker": hold.worker, "pool": pool.name, "lease_since": hold.since,
                              "leases": hold.holds, "deliveries": hold.epoch[1]}
    if worker is not None and _is_anew(hold, world):
        return Reason(
            "lease.silent", "blocked", f"{hold.worker} held it, died, and was started anew at "
            f"{_clock(stamp(worker.started))}; when the old lease expires, a worker of pool {pool.name} takes over",
            task=hold.task, attempt=hold.attempt, values={**values, "other_workers": [hold.worker]}, since=hold.last,
            until=stamp(worker.started + pool.lease_s), remedy="it goes on by itself when the lease expires",
        )
    if worker is None or is_silent(worker, world.now):
        return _silent(world, hold, pool, worker, values)
    values |= {"heard": stamp(worker.heard), "lease_expires": stamp(worker.heard + pool.lease_s)}
    again = f", its {_nth(hold.holds)} lease" if hold.holds > 1 else ""
    what = "no task begun yet"
    if hold.task:
        what = f"task {hold.task}, attempt {hold.attempt} of {view.attempts(hold.step, hold.task)}"
    lease = f"the lease began at {_clock(hold.since)} and expires at {_clock(values['lease_expires'])} unless renewed"
    return Reason(
        "running", "running", f"it runs on {hold.worker}{again}: {what}; {lease}", task=hold.task, attempt=hold.attempt,
        values=values, since=hold.task_since or hold.since, remedy="it goes on by itself",
    )


def _silent(world: World, hold: Hold, pool: Pool, worker: Worker | None, values: dict[str, Any]) -> Reason:
    heard = worker.heard if worker is not None else max(world.now - FORGOTTEN_S, seconds(hold.last))
    alive = [other.name for other in world.of(pool.name) if not is_silent(other, world.now)]
    others = [name for name in alive if name != hold.worker]
    then = "another worker takes over" if others else f"it waits for a worker of pool {pool.name}: none other is there"
    return Reason(
        "lease.silent", "blocked",
        f"{hold.worker} holds it and was last heard of at {_clock(stamp(heard))}; when the lease expires, {then}",
        task=hold.task, attempt=hold.attempt, values={**values, "other_workers": others}, since=hold.last,
        until=stamp(heard + BEAT_S + pool.lease_s),
        remedy="it goes on by itself when the lease expires" if others else start_worker(pool),
    )


def _short_pause(view: View, hold: Hold) -> Reason:
    retried = hold.retried
    assert retried is not None
    return backoff(view, hold, seconds(hold.last) + retried.delay, {"worker": hold.worker})


def _taken(holder: Worker, pool: Pool) -> Reason:
    values = {"worker": holder.name, "pool": pool.name, "heard": stamp(holder.heard),
              "lease_expires": stamp(holder.heard + pool.lease_s)}
    text = f"it runs on {holder.name}, which has not written anything about it yet"
    return Reason("running", "running", text, values=values, remedy="it goes on by itself")


def _clock(at: str) -> str:
    return f"{at[11:19]} UTC"


def _nth(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")
