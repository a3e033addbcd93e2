"""Any bytes under a worker's key are a heartbeat within its bounds, or Corrupt, and whoever reads beats goes on."""

import msgspec

from services.scheduler.liveness import Lives
from services.scheduler.pool_capacity import Rooms
from shared.errors import Corrupt
from shared.events import beat as beats
from shared.events.beat import Beat, Busy, Calling, Saying
from shared.events.bounds import MAX_BEAT_SLOTS, MAX_BEAT_TEXT
from shared.events.letter import read, write
from shared.runtime.service.clock import SystemClock
from shared.runtime.stores.pool_state import worker_states
from shared.runtime.stores.pools import Status
from tests.property.fuzz.byte_changes import document
from tests.property.fuzz.runner import Fuzzer, Seen

KEY = "default.w-1"
CALL = Calling("x1", "start:1", -1, "start", "call", 1.8e9)
WHOLE = Beat(
    worker="w-1", pool="default", slots=64, held=[("x1", "start:1", -1), ("x2", "loop:2", 7)], room=128, host="host",
    pid=42, started=1.8e9, version="1.0", provides=("gpu",), draining=True, seqs=[5, 6], skew=0.2,
    busy=[Busy("python", 2, 2, 1, [CALL])],
    says=[Saying("x1", "start:1", -1, "call", 2, {"stdout": ("reading", "page 7"), "stderr": ("slow",)})],
)
PLAIN = Beat("w-1", "default"), Beat("w-1", "default", 4, [("x", "r:1", 0)])
EXAMPLES = tuple(map(msgspec.json.encode, (WHOLE, *PLAIN)))


class Readers:
    """Those who act on beats, with a worker that they know."""

    def __init__(self) -> None:
        self.lives = Lives()
        self.rooms = Rooms(SystemClock(), lambda: 1.0, lambda: None)
        self.take(WHOLE)

    def take(self, beat: Beat) -> None:
        self.rooms.heard(KEY, beat)
        self.lives.heard(KEY, beat)
        self.lives.holds("default", ("x1", "start:1", -1))
        most, room = self.rooms.bounds("default")
        assert 0 < most <= 4 * MAX_BEAT_SLOTS
        assert 0 < room <= 4 * MAX_BEAT_SLOTS
        for gone in self.lives.listened(1.0):
            assert gone.pool == "default"
        assert len(worker_states("default", Status(), [beat])) == 1


def promise(data: bytes) -> Seen:
    try:
        beat = beats.decode(KEY, data)
    except Corrupt as error:
        note = read(write(f"noetl_workers/{KEY}", str(error), data))
        assert note is not None
        assert note.reason.isprintable()
        return Seen(("Corrupt",))
    assert (beat.pool, beat.worker) == ("default", "w-1")
    assert len(beat.held) <= MAX_BEAT_SLOTS
    assert len(beat.host) <= MAX_BEAT_TEXT
    readers = Readers()
    readers.take(beat)
    readers.take(WHOLE)
    return Seen(("a heartbeat",))


FUZZER = Fuzzer(
    "beats", lambda chance: document(chance, EXAMPLES), promise, frozenset(("a heartbeat", "Corrupt")), most_s=0.2,
)
