"""What must be true of the times in a log, whatever the clocks of the machines said."""

from shared.bus import topology
from shared.events import subjects
from shared.events.record import Record
from shared.events.stamp import seconds
from tests.sim.world import PARTITIONS, World

# Less than a machine's clock is ever wrong by here, more than an honest record is late: a broker set back by a minute is
# followed by a tenth of a second a second, a record waits for a broker that is down and for a client that is frozen.
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
