"""What must be true of the times in a log, whatever the clocks of the machines said."""

from shared.bus import topology
from shared.events import subjects
from shared.events.record import Record
from shared.events.stamp import seconds
from tests.sim.world import PARTITIONS, World

# Less than any machine's clock is wrong by here, and more than an honest record is late: after a broker is set back by
# a minute, services follow by a tenth of a second per second, and a record waits while a broker is down or a client
# frozen.
OFF_S = 1200.0

Histories = dict[str, list[tuple[int, Record]]]


def check(world: World, histories: Histories) -> list[str]:
    """The time of a record is the broker's, carried on: no machine's."""
    found = []
    for execution_id, records in histories.items():
        stream = world.broker.streams[topology.events_stream(subjects.partition_of(execution_id, PARTITIONS))]
        for seq, record in records:
            off = seconds(record.ts) - stream.stored[seq].timestamp / 1e9
            if abs(off) > OFF_S:
                found.append(f"clock: {execution_id} record {seq} of {record.writer} is {off:.0f} s off")
    return found
