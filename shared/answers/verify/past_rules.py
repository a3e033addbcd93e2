"""Rules that have changed. A record carries no version, so each one says here by what a decision of the time before is
recognised; such a decision is made again by the rule of its time.

- `exec: local` used to be read and to change nothing. A loop of such a step that a record starts as one for all workers
  is of that time: all that follows from it goes by what the record says (`loop.started` has `local` or not), so only
  the start itself needs the older reading.
- A decision used to look at all signals that its waits ask for, and said nothing of those that were too many. One that
  names other signals than follow today is of that time if it names those that followed then.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from shared.answers.history.history import PlanOf
from shared.dsl.model.plan import Plan
from shared.events import model as ev
from shared.events.record import Record


def of_its_time(plan_of: PlanOf, record: Record) -> PlanOf:
    """The plans as whoever wrote the record read them."""
    shared = {event.step for event in record.events if isinstance(event, ev.LoopStarted) and not event.local}
    return (lambda digest: _for_all_workers(plan_of(digest), shared)) if shared else plan_of


def looks_at(events: Iterable[ev.Event]) -> list[str]:
    """The signals that a decision takes or rejects."""
    return [
        event.source if isinstance(event, ev.SignalRejected) else event.signal
        for event in events if isinstance(event, ev.SignalRejected | ev.TaskResumed)
    ]


def _for_all_workers(plan: Plan, names: set[str]) -> Plan:
    steps = {
        name: replace(step, loop=replace(step.loop, local=False)) if name in names and step.loop is not None else step
        for name, step in plan.steps.items()
    }
    return replace(plan, steps=steps)
