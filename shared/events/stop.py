"""A message to the workers of a pool: the holder of this run, or of an iteration of it, stops. It may get lost: what
a stopped run still reports is ignored. A pause is for the holder of a local loop: what is in flight finishes."""

import msgspec
from msgspec import Struct

from shared.events.bounds import MAX_WORD_BYTES
from shared.events.decoding import read


class Stop(Struct, frozen=True):
    pool: str
    execution_id: str
    run_id: str
    pause: bool = False
    at: int = 0  # where the log says that it is paused


_decoder = msgspec.json.Decoder(Stop)


def decode(data: bytes) -> Stop:
    return read(_decoder, data, "a stop", MAX_WORD_BYTES)
