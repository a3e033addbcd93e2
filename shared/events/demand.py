"""What a scheduler holds back, by pool: a word that is not stored. Whoever wants to know the demand of a pool adds what
its queue has (`shared/runtime/stores/demand.py`)."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from shared.errors import Corrupt
from shared.events.bounds import MAX_WORD_BYTES, POOL, WORKER, Count
from shared.events.decoding import read

PoolName = Annotated[str, Meta(pattern=rf"\A{POOL.pattern}\Z")]
MAX_NAMED = 500  # pools with the longest names fit into a word


class Held(Struct, frozen=True):
    """Pools of which nothing is held are left out."""

    instance: Annotated[str, Meta(pattern=rf"\A{WORKER.pattern}\Z")]
    pools: Annotated[dict[PoolName, Count], Meta(max_length=MAX_NAMED)] = {}


_decoder = msgspec.json.Decoder(Held)


def encode(instance: str, pools: dict[str, int]) -> bytes:
    """Of too many, those with the most."""
    if len(pools) > MAX_NAMED:
        pools = dict(sorted(pools.items(), key=lambda each: -each[1])[:MAX_NAMED])
    return msgspec.json.encode(Held(instance, pools))


def decode(instance: str, data: bytes) -> Held:
    """The subject says whose it is."""
    held = read(_decoder, data, "a word about what is held back", MAX_WORD_BYTES)
    if held.instance != instance:
        raise Corrupt("a word about what is held back that speaks for another than its subject says")
    return held
