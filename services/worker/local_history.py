"""Reads what the log says of a local loop (`engine/local_held.py` says what counts of it)."""

from shared.bus import topology
from shared.bus.ports import Bus
from shared.engine.local_held import LoopHistory, accept_loop
from shared.errors import Unavailable
from shared.events import subjects
from shared.events.command import Command
from shared.events.record import decode

WRITERS = (subjects.ITERATION, subjects.SCHEDULER, subjects.ROUTER)


async def read(bus: Bus, partitions: int, command: Command) -> LoopHistory:
    partition = subjects.partition_of(command.execution_id, partitions)
    filters = [subjects.event(partition, command.execution_id, writer) for writer in WRITERS]
    messages = await bus.read(topology.events_stream(partition), filters, after=command.cause)
    if command.since and (not messages or messages[-1].seq < command.since):
        raise Unavailable("the log does not show the end of the pause yet")
    return accept_loop((decode(message.data) for message in messages), command.run_id)
