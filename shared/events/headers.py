"""Every header that we write or read, ours and the broker's: the only place where one is spelled."""

from collections.abc import Mapping

REPLY_TO = "Noetl-Reply-To"  # on a request: where its sender waits for the answer

REQUEST_ID = "Noetl-Request-Id"  # on a request: its id, where the broker must not drop a second one of that id

# Set by the publisher
MESSAGE_ID = "Nats-Msg-Id"  # the broker stores one message of an id; ids of executions are derived from it
EXPECTED_LAST = "Nats-Expected-Last-Subject-Sequence"
KV_OPERATION = "KV-Operation"  # on a key that was deleted

# Set by the broker, on a message it delivers
STREAM = "Nats-Stream"
SUBJECT = "Nats-Subject"
SEQUENCE = "Nats-Sequence"
TIME_STAMP = "Nats-Time-Stamp"
LAST_SEQUENCE = "Nats-Last-Sequence"
MARKER_REASON = "Nats-Marker-Reason"  # on a key that is gone because its time was over

# Set by the broker, at the end of its answers
NUM_PENDING = "Nats-Num-Pending"
UP_TO_SEQUENCE = "Nats-UpTo-Sequence"
PENDING_MESSAGES = "Nats-Pending-Messages"  # of a pull: how many of those asked for will not come


def request_id(headers: Mapping[str, str] | None) -> str:
    """What makes a request the same one when it comes again; empty: its place in the queue does."""
    return (headers or {}).get(REQUEST_ID, "") or (headers or {}).get(MESSAGE_ID, "")
