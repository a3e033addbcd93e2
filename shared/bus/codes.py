"""Every JetStream error code the engine can meet, and what it means to us. Nobody else compares codes.

    meaning       what the caller does
    Conflict      reloads and decides again: another writer was first, or is at it
    Duplicate     continues: the write-once subject holds its message
    NotFound      creates the stream or consumer, or concludes that the message is not there
    Refused       says so and does not try again: asking again cannot help
    Unavailable   tries again with backoff: a leader is missing, a limit is reached, a node is away. Nothing was stored

Some are only said in passing and are `AGAIN`: asked again a few times after RETRY_S before they count.
 - A correct expected sequence is refused for a moment by a leader that has not applied what it confirmed: 10071 with
   a number below the expected one. 10164 says the same without a number, while a write of that subject is on its way;
   which of the two will be first is not known yet, so it is a Conflict, as is a 10071 with a higher number.
 - 10158: a message of this id is on its way and not stored. It may never be (its leader may die), so it is not taken
   for a duplicate: asked again, it is either answered with the sequence of the first one or stored itself.
 - 10163, 10167: not ready, too many at once.

A code that is not in the table goes by its class: 404 NotFound, other 4xx Refused, 5xx Unavailable. What is here with
another meaning than its class has it for a reason: limits and missing peers (4xx) end when someone makes room or the
nodes are back; settings that the server cannot use (5xx) do not get better by asking again.
"""

import re
from typing import Final

from msgspec import Struct

from shared.errors import Conflict, Duplicate, NoetlError, Refused, Unavailable

RETRIES = 5
RETRY_S = 0.002  # doubled each time
AGAIN: Final = frozenset({10158, 10163, 10167})
WRONG_LAST_SEQUENCE, WRONG_LAST_SEQUENCE_CONSTANT = 10071, 10164
STORE_FAILED = 10077
NOT_ENABLED = 10039
SILENT = "JetStream does not answer"  # of a server, or an account, that has none
_LAST = re.compile(r"wrong last sequence: ([0-9]{1,19})")
_PER_SUBJECT = "maximum messages per subject"  # of 10077; its other texts are limits and a full disk


class NotFound(Unavailable):
    """The stream, consumer or message is not there."""


class NoMessage(NotFound):
    """The stream is there and has no such message."""


class ApiError(Struct, gc=False):
    code: int = 0
    err_code: int = 0
    description: str = ""


MEANINGS: Final[dict[int, tuple[str, type[NoetlError]]]] = {
    # A publish
    10071: ("wrong last sequence", Conflict),
    10164: ("wrong last sequence, another write is on its way", Conflict),
    10077: ("the store refused: bytes, messages, or the disk", Unavailable),
    10158: ("a message of this id is on its way", Unavailable),
    10163: ("the expected sequence cannot be checked yet", Unavailable),
    10167: ("too many requests", Unavailable),
    10054: ("larger than the stream takes", Refused),
    10097: ("headers larger than 64 KB", Refused),
    10060: ("another stream was expected", Refused),
    10109: ("the stream is sealed", Refused),
    10111: ("rollups are forbidden", Refused),
    10165: ("not a TTL", Refused),
    10166: ("TTLs are forbidden", Refused),
    10174: ("atomic batches are forbidden", Refused),
    10188: ("schedules are forbidden", Refused),
    # Room
    10002: ("the limits of the account are reached", Unavailable),
    10023: ("insufficient resources", Unavailable),
    10026: ("too many consumers; idle ones go away", Unavailable),
    10027: ("too many streams", Unavailable),
    10028: ("insufficient memory", Unavailable),
    10047: ("insufficient storage", Unavailable),
    10121: ("max_ack_pending over the limit", Refused),
    10122: ("max_bytes over the limit of the account", Refused),
    # A cluster
    10004: ("incomplete results", Unavailable),
    10005: ("not enough nodes", Unavailable),
    10007: ("not assigned to this node", Unavailable),
    10008: ("no leader", Unavailable),
    10009: ("not the leader", Unavailable),
    10010: ("it needs a cluster", Refused),
    10036: ("not on a cluster", Refused),
    10041: ("consensus failed", Unavailable),
    10074: ("replicas need a cluster", Refused),
    10118: ("the stream is offline", Unavailable),
    10119: ("the consumer is offline", Unavailable),
    10194: ("the stream is offline", Unavailable),
    10195: ("the consumer is offline", Unavailable),
    10202: ("the cluster is changing", Unavailable),
    10226: ("the stream is being changed", Unavailable),
    # Streams, consumers, messages
    10014: ("no such consumer", NotFound),
    10037: ("no such message", NoMessage),
    10043: ("no such sequence", NoMessage),
    10059: ("no such stream", NotFound),
    10149: ("no such consumer", NotFound),
    10012: ("the consumer could not be made", Unavailable),
    10049: ("the stream could not be made", Unavailable),
    10052: ("not a stream's configuration", Refused),
    10058: ("the stream is there with other settings", Refused),
    10065: ("another stream has the subjects", Refused),
    # JetStream itself
    10035: ("no such account", Unavailable),
    10039: ("not enabled for the account", Unavailable),
    10076: ("not enabled", Unavailable),
}


# What whoever keeps the broker has to change, where a code says that; other codes are about what was asked.
_FULL = "no server has room for it, or none has the tags of NOETL_PLACEMENT: look at max_memory_store, " \
        "max_file_store and server_tags of the servers, and at their number, which NOETL_REPLICAS may not exceed"
_NO_JETSTREAM = "the account has no JetStream: `jetstream: enabled` in its part of `accounts`"
BROKER_SETTINGS: Final[dict[int, str]] = {
    10002: "raise max_mem and max_file of the account's `jetstream` block",
    10005: _FULL,
    10023: _FULL,
    10026: "raise max_consumers of the account's `jetstream` block",
    10027: "raise max_streams of the account's `jetstream` block: the engine has 5 streams beside those of events, and "
           "10 buckets",
    10028: "the queue of commands is in memory: set `max_memory_store` of the server's `jetstream` block to 256MB or "
           "more (0 is none; config.jetstream.memoryStore of the NATS chart), and max_mem of the account if it has one",
    10047: "raise `max_file_store` of the server's `jetstream` block (config.jetstream.fileStore of the NATS chart), "
           "or max_file of the account",
    10035: _NO_JETSTREAM,
    10039: _NO_JETSTREAM,
    10074: "NOETL_REPLICAS is over 1, and the server is no part of a cluster: give it a `cluster` block, or set 1",
    10076: "the server has no JetStream: give it a `jetstream` block with a store_dir",
    10113: "max_bytes_required of the account wants a size for every stream, and the log has none: leave it out",
    10121: "raise max_ack_pending of the account's `jetstream` block, or of `jetstream: {limits}` of the server",
    10122: "NOETL_MAX_BYTES is over memory_max_stream_bytes or store_max_stream_bytes of the account",
}
_CODE = re.compile(r"\((\d{5})\)$")


def broker_setting(said: str) -> str:
    """Which setting of the broker an error of `error_of` asks for; empty when it is none."""
    found = _CODE.search(said)
    if found is None:
        return BROKER_SETTINGS[10076] if SILENT in said else ""
    return BROKER_SETTINGS.get(int(found[1]), "")


def meaning(error: ApiError) -> type[NoetlError]:
    if error.err_code == STORE_FAILED and _PER_SUBJECT in error.description:
        return Duplicate
    known = MEANINGS.get(error.err_code)
    if known is not None:
        return known[1]
    if error.code == 404:
        return NotFound
    return Refused if error.code < 500 else Unavailable


def error_of(error: ApiError, subject: str) -> NoetlError:
    return meaning(error)(f"{subject}: {error.description} ({error.err_code})")


def is_passing(error: ApiError, expected: int) -> bool:
    """It may be otherwise in a moment. `expected` is below 0 when no sequence was expected."""
    if error.err_code in AGAIN:
        return True
    if error.err_code != WRONG_LAST_SEQUENCE or expected < 0:
        return False
    found = _LAST.search(error.description)
    return found is not None and int(found[1]) < expected
