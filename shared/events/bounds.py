"""How long, large and deep what comes from outside may be: names, ids, texts, numbers, records. Whoever reads bytes
holds them to these."""

import re
from typing import Annotated

from msgspec import Meta

MAX_AHEAD_NS = 3600 * 10**9    # by which a lease may be later than its record: the broker's clock was set back
MAX_BEAT_BYTES = 1_000_000     # of a heartbeat: 4,096 runs under their longest names
MAX_BEAT_CALLS = 64            # calls of one kind that a heartbeat names
MAX_BEAT_KINDS = 64            # kinds of tools that take turns
MAX_BEAT_LINES = 5             # of each stream that a call under way prints
MAX_BEAT_SAYINGS = 16          # calls of which a heartbeat has them
MAX_BEAT_SLOTS = 4_096         # and as many runs may be held
MAX_BEAT_TEXT = 256            # characters of a host, a version, a capability
MAX_COMMAND_BYTES = 1_048_576  # the broker accepts no larger message
MAX_COUNT = 2**31 - 1          # of deliveries, attempts, iterations, elements
MAX_CREDENTIAL_NAME = 128      # characters
MAX_DELAY_S = 3_660 * 86_400.0
MAX_LETTER_BYTES = 49_152      # of a dead letter, as it is stored
MAX_LETTER_EXCERPT = 4_096     # bytes of the message that are kept in it
MAX_LETTER_HEADER = 256        # characters of a header's value
MAX_LETTER_HEADERS = 8
MAX_LETTER_NAME = 64           # characters of a header's name, or of a trigger's or schedule's
MAX_LETTER_PLACE = 512
MAX_LETTER_REASON = 1_000
MAX_NESTING = 200              # lists and mappings within each other, in what a worker writes
MAX_PATH = 256                 # characters of a playbook's path
MAX_PRINTED = 32_768           # characters of each stream of a call that was cut short
MAX_RECORD_BYTES = 900_000     # below the broker's 1 MiB message limit
MAX_RECORD_NAME = 512          # of a step, a run, a task, a worker, in a record; where names enter they are shorter
MAX_RECORD_TEXT = 4_096        # of a wait, a path, a reason, in a record
MAX_REQUEST_BY = 256           # characters of who asks
MAX_REQUEST_ID = 256           # of the header that makes a request the same
MAX_REQUEST_REASON = 4_096
MAX_STEP_NAME = 128            # of a step, a task, a signal
MAX_STORED_BYTES = 64 * 1_048_576  # a single stored value
MAX_TS = 40                    # characters of a time
MAX_VERSION = 64               # characters of a playbook's version
MAX_WHOLE = 2**63 - 1          # a sequence, or nanoseconds
MAX_WORD_BYTES = 65_536        # of what services and workers tell each other: stops, claims, notices

EXECUTION_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
ASKED_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")  # in a request: no shell takes it for an option
DERIVED_ID = re.compile(r"[0-9a-f]{20}")  # the engine's own, which follow from their cause (ADR 33)
POOL = re.compile(r"[A-Za-z0-9_-]{1,64}")
POOL_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")  # of a new one: DNS-1123
WORKER = re.compile(r"[A-Za-z0-9_-]{1,128}")  # and any other instance of a service

Attempt = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
BeatText = Annotated[str, Meta(max_length=MAX_BEAT_TEXT, pattern=r"\A[^\x00-\x1f\x7f-\x9f]*\Z")]
Checksum = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Delay = Annotated[float, Meta(ge=0, le=MAX_DELAY_S)]
ExecutionId = Annotated[str, Meta(pattern=rf"\A{EXECUTION_ID.pattern}\Z")]
Index = Annotated[int, Meta(ge=-MAX_COUNT, le=MAX_COUNT)]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_RECORD_NAME)]
Positive = Annotated[int, Meta(ge=1, le=MAX_WHOLE)]
PrintedText = Annotated[str, Meta(max_length=MAX_PRINTED)]
ResultKey = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,64}/[0-9a-f]{64}\Z")]
Seq = Annotated[int, Meta(ge=0, le=MAX_WHOLE)]
Size = Annotated[int, Meta(ge=0, le=MAX_STORED_BYTES)]
Text = Annotated[str, Meta(max_length=MAX_RECORD_TEXT)]
Time = Annotated[str, Meta(max_length=MAX_TS)]
Unix = Annotated[float, Meta(ge=0, le=1e11)]

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NOT_OPENING = bytes(set(range(256)) - set(b"[{"))
_RUN = re.compile(rb"\[+|\]+")
_OPENING = ord("[")
_PEELED = 5
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def is_deep(data: bytes, most: int = MAX_NESTING) -> bool:
    """Whether lists and mappings of valid JSON are nested deeper than allowed. Few bytes or brackets
    cannot be: that is the usual case, and takes no time."""
    if len(data) <= 2 * most or len(data.translate(None, _NOT_OPENING)) <= most:
        return False
    left = _STRING.sub(b"", data).translate(_ONE_KIND, _NOT_BRACKETS)
    for _ in range(_PEELED):
        left = left.replace(b"[]", b"")  # the innermost of each: mostly, nothing is left
    depth = _PEELED
    for run in _RUN.findall(left):
        depth += len(run) if run[0] == _OPENING else -len(run)
        if depth > most:
            return True
    return False
