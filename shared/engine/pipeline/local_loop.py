"""A local loop as the worker that runs it sees it.

The worker folds the ends of its iterations as the scheduler does, so both agree on what has failed, which writes to ctx
count and what `stop_when` is asked about. It begins iterations in index order, first those that a worker before it had
begun, and no further one when

1. more have failed than the step tolerates: the scheduler fails the step by the same rule;
2. `stop_when` holds: `loop.halted` says after which, once those in flight are over;
3. the loop is over its time, which the scheduler decides.
"""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from shared.dsl.model.plan import Step, Task
from shared.dsl.templates.budget import one_decision
from shared.engine.pipeline import call as pipeline_call
from shared.engine.pipeline.decide import Progress
from shared.engine.pipeline.history import History
from shared.engine.pipeline.local_history import LoopHistory
from shared.engine.scheduling import carried_loop
from shared.engine.scheduling import decide as scheduling
from shared.engine.scheduling import loops as scheduling_loops
from shared.engine.scheduling import state as schedule
from shared.engine.scheduling.nesting import iter_at
from shared.engine.scheduling.state import Loop
from shared.engine.values.stored_values import Values
from shared.errors import TemplateError
from shared.events import model as ev
from shared.events.command import Command
from shared.events.failure import Failure
from shared.events.run_index import is_iteration


class LocalLoop:
    """`begun` are the iterations that a worker before may have begun and has not ended, `next` the first after them."""

    def __init__(self, step: Step, command: Command) -> None:
        self._step, self._command = step, command
        self._loop = _opened(command)
        self._begun: list[int] = []
        self._ctx: tuple[ev.Patch, ...] = ()
        self._seen = 0
        self._see_writes()
        self.index = -1
        self.error: dict[str, Any] | None = None

    @property
    def next(self) -> int:
        return self._loop.next

    @property
    def is_halted(self) -> bool:
        """Nothing more is to begin, and the scheduler does not know."""
        return is_iteration(self.index) or self.error is not None

    def take_over(self, begun: Iterable[int], ended: Iterable[tuple[int, ev.Event]], values: Values) -> None:
        """What the log says of it: what has begun and not ended, and what has ended, in that order. Of several that
        were begun at once, a later one may be in the log and an earlier one not."""
        known = dict(ended)
        last = max([*begun, *known], default=-1) + 1
        todo = carried_loop.todo(_started(self._loop).taken, values)
        self._begun = [index for index in range(last) if index in todo and index not in known]
        self._loop.next = last
        for index, event in known.items():
            self.end(index, event)

    def begin(self, values: Values) -> Command | None:
        """The command of the next iteration; None when no further one is to begin."""
        if self._begun:
            command = self._iteration(self._begun[0], values)
            self._begun.pop(0)
            return command
        if self.is_halted or scheduling_loops.failure(self._step, self._loop) is not None:
            return None
        todo = carried_loop.todo(_started(self._loop).taken, values)
        span = todo.span(self._loop.next, self._command.count, 1)
        if span is None:
            return None
        command = self._iteration(span[0], values)
        self._loop.next = span[0] + 1
        return command

    def end(self, index: int, event: ev.Event) -> None:
        """The last event of an iteration; `ask` comes next."""
        if isinstance(event, ev.IterationDone):
            schedule.settle(self._loop, index, event.ctx, event.result, None)
        elif isinstance(event, ev.IterationFailed):
            schedule.settle(self._loop, index, event.ctx, ev.IterationDone().result, event.error)
        self._see_writes()
        self._loop.recent = (*self._loop.recent, (0, index))

    def _see_writes(self) -> None:
        """What further iterations may read of the writes to ctx."""
        new = self._loop.patches[self._seen :]
        self._ctx += tuple(patch for patch in new if scheduling.reads(self._step, patch))
        self._seen += len(new)

    @one_decision
    def ask(self, values: Values) -> None:
        """Whether `stop_when` holds after one of the iterations that ended since it was last evaluated."""
        if self.is_halted:
            return
        try:
            found = scheduling_loops.stops_at(self._step, self._command.execution_id, self._loop, values)
        except TemplateError as error:
            self.error = Failure(error.kind, f"loop.spec.stop_when: {error}").error()
        else:
            self.index = -1 if found is None else found
        self._loop.recent = ()

    def _iteration(self, index: int, values: Values) -> Command:
        loop = self._step.loop
        assert loop is not None
        items = scheduling_loops.elements_of(self._loop, values)
        item, within = (None, iter_at(loop.levels, items, index)) if loop.inner else (items[index], {})
        return replace(self._command, index=index, item=item, iter=within, ctx=self._ctx, local=None)


def ahead(step: Step, command: Command, known: LoopHistory, most: int) -> list[Task | None]:
    """The tasks called first by a loop, given what is known of it: by each iteration that continues, and by a new one
    if there are more and may be more at a time. None: one that continues without a call."""
    assert command.local is not None
    taken = command.local.taken
    left = command.count - len(known.begun) - len(known.ended) - (taken.done if taken is not None else 0)
    first = [known.begun[index] for index in sorted(known.begun)[:most]]
    if left > 0 and len(first) < most:
        first.append(History())
    start = Progress(step.tasks[0].name)
    return [pipeline_call.next_call(step, history.progress(step, start)) for history in first]


def _opened(command: Command) -> Loop:
    local = command.local
    assert local is not None
    scheduled = ev.StepScheduled(
        run_id=command.run_id, step=command.step, tokens=(), digest=command.digest, pool=command.pool, loop=True,
        args=command.args, scope=command.scope, scope_ref=command.scope_ref,
    )
    loop = Loop(scheduled, command.cause)
    schedule.begin(loop, ev.LoopStarted(
        run_id=command.run_id, step=command.step, count=command.count, items=local.items, items_ref=local.items_ref,
        max_in_flight=local.most, parallel=local.parallel, deadline=command.deadline, local=True, frame=0,
        taken=local.taken,
    ))
    return loop


def _started(loop: Loop) -> ev.LoopStarted:
    assert loop.started is not None
    return loop.started
