"""Why a run, or an iteration, that a worker should have is not done: it runs, its worker is silent, it pauses between
attempts, or nobody has taken it (`pools.py`)."""

from typing import Any

from msgspec.structs import replace

from shared.answers.why.facts import Pool, Reason, Worker, World
from shared.answers.why.loops import progress
from shared.answers.why.pools import is_silent, is_stranded, not_taken, start_worker
from shared.answers.why.remedies import GOES_ON, remedy
from shared.answers.why.tool_turns import no_turn
from shared.answers.why.view import Hold, View
from shared.answers.why.waits import backoff
from shared.dsl.model.plan import MAX_LEASES
from shared.engine.leases.lost_leases import counted
from shared.engine.pipeline.call import MAX_TASK_S, limits, own_time
from shared.events.beat import Key
from shared.events.command import Command
from shared.events.run_index import frame_of, is_frame, is_iteration
from shared.events.stamp import seconds, stamp

BEAT_S = 1.5         # how often a worker says that it is there
FORGOTTEN_S = 10.0   # beats are kept for this long


def is_on_its_way(view: View, world: World, command: Command) -> bool:
    """Nobody has it, and nobody will get it from the queue: the scheduler is asked about it."""
    at = command.run_id, command.index
    hold = view.holds.get(at)
    if world.holder((view.execution_id, *at)) is not None or not _is_lost(world, command):
        return False
    return hold is None or hold.state != "held" or _has_let_go(hold, world, view, command) or _is_gone(hold, world)


def _is_lost(world: World, command: Command) -> bool:
    """The queue does not have it, or has it for nobody."""
    queued = world.queued.get((command.run_id, command.index))
    return queued is None or is_stranded(queued, world.pools.get(command.pool, Pool(command.pool)))


def due(view: View, world: World, command: Command) -> Reason:
    """A worker should have it."""
    at = command.run_id, command.index
    hold = view.holds.get(at)
    holder = world.holder((view.execution_id, *at))
    pool = world.pools.get(command.pool, Pool(command.pool))
    if holder is not None and not is_silent(holder, world.now) and not is_with(hold, world, (view.execution_id, *at)):
        found = no_turn(view, command, pool, [holder], start_worker(pool)) or _taken(holder, pool)
    elif hold is not None and hold.state == "held" and not is_on_its_way(view, world, command) \
            and not _has_let_go(hold, world, view, command) and not _has_lost(hold, world, pool, command):
        found = _held(view, world, hold, pool, command)
    else:
        found = not_taken(view, world, command, pool)
        if hold is not None and hold.state == "held":
            found = replace(found, text=f"{found.text}; {hold.worker} had it before and {left(hold, world, pool)}",
                            values={**found.values, "came_back_from": hold.worker, "leases": hold.holds})
    found = _with_lost(view, hold, command.step, found) if hold is not None and hold.lost else found
    if command.run_id in view.schedule.loops and not is_iteration(command.index):
        found = _as_loop(view, command, found)
    return replace(found, step=command.step, run_id=command.run_id, index=command.index,
                   since=found.since or view.times.get(command.run_id, ""))


def _as_loop(view: View, command: Command, found: Reason) -> Reason:
    """The claim of a loop's next rows, or a loop that one worker runs as a whole."""
    if is_frame(command.index):
        return replace(found, text=f"the claim of its next rows: {found.text}",
                       values={**found.values, "frame": frame_of(command.index)})
    how = progress(view, command.run_id)
    flight = f"{how['in_flight']} in flight, at most {how['max_in_flight']}"
    done = f"{how['ended']} of {how['count']} iterations are done, {flight}"
    return replace(found, text=f"the whole loop is one worker's: {found.text}; {done}", values={**found.values, **how})


def _with_lost(view: View, hold: Hold, step: str, found: Reason) -> Reason:
    """How near it is to failing with its workers."""
    known = view.step(step)
    most = f" of at most {known.max_leases}" if known is not None else ""
    counts = counted(hold.lost, known.max_leases if known is not None else MAX_LEASES)
    if not counts:
        return found
    lost = [lease.values() for lease in counts]
    text = f"{found.text}; {len(lost)}{most} leases in a row were lost, with no task finished: " \
        f"{'; '.join(map(str, counts))}"
    return replace(found, text=text, values={**found.values, "lost_leases": lost})


def is_with(hold: Hold | None, world: World, key: Key) -> bool:
    """Who has it by the log says so too."""
    if hold is None or hold.state != "held" or _is_anew(hold, world):
        return False
    worker = world.worker(hold.worker)
    return worker is not None and key in worker.held


def _is_anew(hold: Hold, world: World) -> bool:
    """The worker of that name is another life."""
    worker = world.worker(hold.worker)
    return worker is not None and worker.started > seconds(hold.last)


def _is_gone(hold: Hold, world: World) -> bool:
    """The worker that had it by the log is gone: no lease that expires brings it back."""
    return world.worker(hold.worker) is None or _is_anew(hold, world)


def _has_let_go(hold: Hold, world: World, view: View, command: Command) -> bool:
    """Its worker has said that it holds other things, after its last record about this."""
    worker = world.worker(hold.worker)
    if worker is None or worker.heard <= seconds(hold.last) + BEAT_S or _is_anew(hold, world):
        return False
    return (view.execution_id, command.run_id, command.index) not in worker.held


def _heard(hold: Hold, world: World, pool: Pool) -> float | None:
    """When its worker last said anything, if anyone knows: beats are kept for a while only."""
    worker = world.worker(hold.worker)
    return worker.heard if worker is not None else pool.silent.get(hold.worker)


def _has_lost(hold: Hold, world: World, pool: Pool, command: Command) -> bool:
    """Its worker is silent, and its lease holds nothing: the command waits in the queue again, or the lease is over."""
    if not is_silent(world.worker(hold.worker), world.now):
        return False
    queued, heard = world.queued.get((command.run_id, command.index)), _heard(hold, world, pool)
    is_back = queued is not None and queued.seq > pool.delivered
    return is_back or (heard is not None and world.now > heard + BEAT_S + pool.lease_s)


def left(hold: Hold, world: World, pool: Pool) -> str:
    heard = _heard(hold, world, pool)
    if heard is not None and is_silent(world.worker(hold.worker), world.now):
        return f"is silent since {_clock(stamp(heard))}"
    return "is gone" if _is_gone(hold, world) else "has let go of it"


def _held(view: View, world: World, hold: Hold, pool: Pool, command: Command) -> Reason:
    if hold.retried is not None and seconds(hold.last) + hold.retried.delay > world.now:
        return _short_pause(view, hold)
    worker = world.worker(hold.worker)
    values: dict[str, Any] = {"worker": hold.worker, "pool": pool.name, "lease_since": hold.since,
                              "leases": hold.holds, "deliveries": hold.epoch[1]}
    if worker is not None and _is_anew(hold, world):
        return Reason(
            "lease.silent", "blocked", f"{hold.worker} held it, died, and was started anew at "
            f"{_clock(stamp(worker.started))}; a worker of pool {pool.name} takes over when the scheduler has noticed, "
            "at the latest when the old lease expires",
            task=hold.task, attempt=hold.attempt, values={**values, "other_workers": [hold.worker]}, since=hold.last,
            until=stamp(worker.started + pool.lease_s), remedy=GOES_ON,
        )
    if worker is None or is_silent(worker, world.now):
        return _silent(world, hold, pool, values)
    values |= {"heard": stamp(worker.heard), "lease_expires": stamp(worker.heard + pool.lease_s)}
    again = f", its {_nth(hold.holds)} lease" if hold.holds > 1 else ""
    what = "no task begun yet"
    if hold.task:
        target, known = called(view, hold.step, hold.task)
        values |= known
        what = f"task {hold.task}{target}, attempt {hold.attempt} of {view.attempts(hold.step, hold.task)}"
        values |= _printed(worker, (view.execution_id, command.run_id, command.index), hold)
        values |= (until := _given_up(view, hold, command))
        what += f", given up at {_clock(until['call_until'])} (its time is {until['call_s']:g} s)" if until else ""
    lease = f"the lease began at {_clock(hold.since)} and expires at {_clock(values['lease_expires'])} unless renewed"
    return Reason(
        "running", "running", f"it runs on {hold.worker}{again}: {what}; {lease}", task=hold.task, attempt=hold.attempt,
        values=values, since=hold.task_since or hold.since,
        remedy=remedy("call_ends", execution_id=view.execution_id) if hold.task else GOES_ON,
    )


def _printed(worker: Worker, key: Key, hold: Hold) -> dict[str, Any]:
    """What the call has printed last, if its worker says so."""
    says = next((each for each in worker.says if (each.execution_id, each.run_id, each.index) == key
                 and (each.task, each.attempt) == (hold.task, hold.attempt)), None)
    return {"printed": {stream: "\n".join(lines) for stream, lines in says.streams.items()}} if says is not None else {}


def called(view: View, step_name: str, task_name: str) -> tuple[str, dict[str, Any]]:
    """What the task calls, as its author wrote it: which kind, where, with which credential, in which line."""
    step = view.step(step_name)
    task = next((task for task in step.tasks if task.name == task_name), None) if step is not None else None
    if step is None or task is None:
        return "", {}
    auth, url = task.config.get("auth"), task.config.get("url")
    found: dict[str, Any] = {"kind": task.kind}
    if isinstance(url, str):  # what follows may be long or secret, as may a user before the address
        found["url"] = url.partition("?")[0].rpartition("@")[2]
    if isinstance(auth, str):
        found["credential"] = auth
    if step.line:
        found["line"] = step.line
    names = {"url": "{}", "credential": "credential {}", "line": "step at line {}"}
    said = [task.kind, *(names[name].format(value) for name, value in found.items() if name in names)]
    return f" ({', '.join(said)})", found


def _given_up(view: View, hold: Hold, command: Command) -> dict[str, Any]:
    """When the call is over its own time; nothing where only the run's time bounds it, or where a worker knows it."""
    step = view.step(hold.step)
    task = next((task for task in step.tasks if task.name == hold.task), None) if step is not None else None
    if step is None or task is None or not hold.task_since:
        return {}
    limit = own_time(task)
    if limit is None and not limits(step, command, seconds(hold.began)):
        limit = MAX_TASK_S
    if not isinstance(limit, int | float):
        return {}
    return {"call_s": limit, "call_until": stamp(seconds(hold.task_since) + limit)}


def _silent(world: World, hold: Hold, pool: Pool, values: dict[str, Any]) -> Reason:
    """No time is reported that nobody knows: the end of a lease follows from the last beat, which may be gone."""
    heard, until = _heard(hold, world, pool), ""
    said = f"has not been heard of for over {FORGOTTEN_S:g} s; its last word about it was at {_clock(hold.last)}"
    if heard is not None:
        said, until = f"was last heard of at {_clock(stamp(heard))}", stamp(heard + BEAT_S + pool.lease_s)
        values = {**values, "heard": stamp(heard)}
    alive = [other.name for other in world.of(pool.name) if not is_silent(other, world.now)]
    others = [name for name in alive if name != hold.worker]
    then = "another worker takes over when it is taken for dead, at the latest when the lease expires" if others \
        else f"when it is taken for dead, it waits for a worker of pool {pool.name}: none other is there"
    return Reason(
        "lease.silent", "blocked", f"{hold.worker} holds it and {said}; {then}", task=hold.task, attempt=hold.attempt,
        values={**values, "other_workers": others}, since=hold.last, until=until,
        remedy=GOES_ON if others else start_worker(pool),
    )


def _short_pause(view: View, hold: Hold) -> Reason:
    retried = hold.retried
    assert retried is not None
    return backoff(view, hold, seconds(hold.last) + retried.delay, {"worker": hold.worker})


def _taken(holder: Worker, pool: Pool) -> Reason:
    values = {"worker": holder.name, "pool": pool.name, "heard": stamp(holder.heard),
              "lease_expires": stamp(holder.heard + pool.lease_s)}
    text = f"it runs on {holder.name}, which has not written anything about it yet"
    return Reason("running", "running", text, values=values, remedy=GOES_ON)


def _clock(at: str) -> str:
    """To the second, and whole: whoever shows it to people puts it into their zone."""
    return f"{at[:19]}Z"


def _nth(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")
