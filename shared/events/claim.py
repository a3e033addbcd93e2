"""A message among the workers of a pool: this run has a new holder. It may get lost, and is not trusted: who holds the
run as far as it knows looks into the log."""

import msgspec
from msgspec import Struct

from shared.events.bounds import MAX_WORD_BYTES
from shared.events.decoding import read
from shared.events.record import Epoch


class Claim(Struct, frozen=True):
    execution_id: str
    run_id: str
    index: int
    epoch: Epoch
    worker: str


_decoder = msgspec.json.Decoder(Claim)


def decode(data: bytes) -> Claim:
    return read(_decoder, data, "a claim", MAX_WORD_BYTES)
