"""An answer to a direct get, whatever headers its message was stored with."""

import pytest

from shared.bus import direct_reader
from shared.bus.direct_reader import message_of
from shared.errors import Corrupt

END = b"Nats-Stream: S\r\nNats-Subject: a.b\r\nNats-Sequence: 7\r\nNats-Time-Stamp: 2026-01-02T03:04:05.5Z\r\n"
COUNTS = b"Nats-Num-Pending: 3\r\nNats-Last-Sequence: 6\r\n"
EXPECTED = b"Nats-Expected-Last-Subject-Sequence: 5\r\n"
AT = 1_767_323_045_500_000_000


def block(*parts: bytes) -> bytes:
    return b"NATS/1.0\r\n" + b"".join(parts) + b"\r\n"


@pytest.mark.parametrize(("stored", "after", "headers"), [
    (b"", b"", None), (b"", COUNTS, None), (EXPECTED, b"", None), (EXPECTED, COUNTS, None),
    (b"Own: 1\r\n", COUNTS, {"Own": "1"}), (EXPECTED + b"Own: 1\r\n", b"", {"Own": "1"}),
    (b"Nats-Subject: forged\r\nNats-Sequence: 1\r\n", COUNTS, None), (EXPECTED + EXPECTED, COUNTS, None),
])
def test_a_message_is_as_the_broker_says_it_is(stored: bytes, after: bytes, headers: dict[str, str] | None) -> None:
    found = message_of((block(stored, END, after), b"data"))
    assert (found.subject, found.data, found.seq, found.headers, found.at) == ("a.b", b"data", 7, headers, AT)


@pytest.mark.parametrize("after", [b"", COUNTS])
@pytest.mark.parametrize("stored", [b"", EXPECTED])
def test_the_usual_one_is_read_at_once(stored: bytes, after: bytes) -> None:
    assert direct_reader.USUAL.fullmatch(block(stored, END, after))


@pytest.mark.parametrize("wrong", [
    END.replace(b"7", b"0"), END.replace(b"7", b"x"), END.replace(b"Nats-Subject", b"Subject"),
    END.replace(b"2026-01-02", b"2026-13-02"), END.replace(b".5Z", b".5Z\r\nNats-Sequence: 0"),
])
def test_what_is_no_message_is_refused(wrong: bytes) -> None:
    with pytest.raises(Corrupt):
        message_of((block(wrong), b""))
