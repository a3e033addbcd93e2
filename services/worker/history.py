"""What the log says of a run that may have been held before: where to go on, or that it is over."""

from msgspec import Struct

from shared.bus import topology
from shared.bus.ports import Bus
from shared.dsl.plan import Step
from shared.engine import pipeline
from shared.engine.pipeline import Progress
from shared.events import model as ev
from shared.events import subjects
from shared.events.command import Command
from shared.events.record import Epoch, Record, decode
from shared.events.stamp import seconds

TERMINAL = ev.StepDone | ev.StepFailed | ev.IterationDone | ev.IterationFailed


class History(Struct, frozen=True):
    """The accepted records of a run, in log order; `epoch` is the highest that holds it."""

    records: tuple[Record, ...] = ()
    epoch: Epoch = (0, 0)
    over: bool = False
    began: float | None = None

    def progress(self, step: Step, start: Progress) -> Progress:
        for record in self.records:
            for event in record.events:
                start = pipeline.evolve(step, start, event)
        return start


async def read(bus: Bus, command: Command, partitions: int) -> History:
    partition = subjects.partition_of(command.execution_id, partitions)
    writer = subjects.WORKER if command.index < 0 else subjects.ITERATION
    subject = subjects.event(partition, command.execution_id, writer)
    messages = await bus.read(topology.events_stream(partition), [subject], after=command.cause)
    return accept([decode(message.data) for message in messages], command.run_id, command.index)


def accept(records: list[Record], run_id: str, index: int) -> History:
    """The fence: a record counts if no higher epoch came before it, once, and until the run is over."""
    kept: list[Record] = []
    epoch: Epoch = (0, 0)
    n = 0
    for record in records:
        lease = record.lease
        if lease is None or lease.run_id != run_id or lease.index != index or lease.epoch < epoch:
            continue
        if lease.epoch > epoch:
            epoch, n = lease.epoch, 0
        if record.n <= n:
            continue
        n = record.n + len(record.events) - 1
        kept.append(record)
        if isinstance(record.events[-1], TERMINAL):
            return History(tuple(kept), epoch, True, seconds(kept[0].ts))
    return History(tuple(kept), epoch, False, seconds(kept[0].ts) if kept else None)
