"""A heartbeat is what it says within its bounds, under the key of who says it; anything else is Corrupt."""

import msgspec
import pytest

from shared.errors import Corrupt
from shared.events import beat as beats
from shared.events.beat import Beat
from shared.events.bounds import MAX_BEAT_SLOTS

RUN = ("x" * 64, "s" * 128 + ":1", 10**6)


def test_the_largest_beat_of_an_honest_worker_is_one() -> None:
    largest = Beat("w" * 128, "p" * 64, 4096, [RUN] * MAX_BEAT_SLOTS, 8192, seqs=[2**62] * MAX_BEAT_SLOTS)
    assert beats.decode(f"{'p' * 64}.{'w' * 128}", msgspec.json.encode(largest)) == largest


@pytest.mark.parametrize(
    ("key", "data", "says"),
    [
        ("p.w", b"{}", "missing required field"),
        ("p.w", b"\xff", "cannot be read"),
        ("p.w", b'{"worker": "w", "pool": "p", "host": "\xff"}', "not UTF-8"),
        ("p.w", b"[" * 100_000, "cannot be read|deeply"),
        ("p.w", b'{"worker": "w", "pool": "other"}', "speaks for another"),
        ("p.w", b'{"worker": "v", "pool": "p"}', "speaks for another"),
        ("p", b'{"worker": "", "pool": "p"}', "a key that no worker has"),
        ("p.a.b", b'{"worker": "a.b", "pool": "p"}', "a key that no worker has"),
        ("p." + "w" * 129, b'{"worker": "w", "pool": "p"}', "a key that no worker has"),
        ("p.w", b'{"worker": "w", "pool": "p", "slots": 4097}', "slots"),
        ("p.w", b'{"worker": "w", "pool": "p", "held": [["a.>", "r:1", -1]]}', "held"),
        ("p.w", b'{"worker": "w", "pool": "p", "version": "\\u001b[2J"}', "version"),
        ("p.w", b" " * 1_000_001, "the limit is 1000000"),
    ],
)
def test_what_is_no_beat_is_corrupt_and_says_why(key: str, data: bytes, says: str) -> None:
    with pytest.raises(Corrupt, match=says):
        beats.decode(key, data)
