"""Reads what the log says of a local loop (`shared/engine/pipeline/local_history.py` says what counts of it)."""

from shared.bus import topology
from shared.bus.ports import Bus
from shared.engine.pipeline.history import known
from shared.engine.pipeline.local_history import LoopHistory, accept_loop
from shared.errors import Unavailable
from shared.events import subjects
from shared.events.command import Command
from shared.events.record import readable

WRITERS = (subjects.ITERATION, subjects.SCHEDULER, subjects.ROUTER)


async def read(bus: Bus, partitions: int, command: Command) -> LoopHistory:
    partition = subjects.partition_of(command.execution_id, partitions)
    filters = subjects.written(partition, command.execution_id, WRITERS)
    messages = await bus.read(topology.events_stream(partition), filters, after=command.cause)
    if command.since and (not messages or messages[-1].seq < command.since):
        raise Unavailable("the log does not show the end of the pause yet")
    return accept_loop((record for _, record in readable(messages, partitions)), command.run_id, known(command))
