"""The parser of the protocol, fed with every split of its input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from shared.bus.pull import ack_subject
from shared.bus.subject import check_subject
from shared.bus.wire import Connection, header_block, number, parse_headers, pub, status_of, stored_headers, text
from shared.errors import Refused

Seen = list[tuple[bytes, bytes, bytes, bytes]]
HEADER = b"NATS/1.0\r\nA: b\r\n\r\n"
INPUT = (
    b"MSG a.b 1 5\r\nhello\r\n"
    b"PONG\r\n"
    b"MSG a.b 1 reply.to 11\r\nMSG x 1 0\r\n\r\n"  # a payload that looks like the protocol
    b"+OK\r\n"
    b"HMSG a.c 1 %d %d\r\n%bbody\r\n" % (len(HEADER), len(HEADER) + 4, HEADER)
    + b"HMSG a.d 1 r %d %d\r\n%b\r\n" % (len(HEADER), len(HEADER), HEADER)
    + b"MSG other 9 3\r\nabc\r\n"
    b"MSG a.e 1 0\r\n\r\n"
)
EXPECTED: Seen = [
    (b"a.b", b"", b"", b"hello"),
    (b"a.b", b"reply.to", b"", b"MSG x 1 0\r\n"),
    (b"a.c", b"", HEADER, b"body"),
    (b"a.d", b"r", HEADER, b""),
    (b"a.e", b"", b"", b""),
]


async def parse(chunks: list[bytes]) -> Seen:
    seen: Seen = []
    connection = Connection()
    connection.routes[b"1"] = lambda *message: seen.append(message)
    for chunk in chunks:
        await connection._ps.parse(chunk)
    return seen


async def test_messages_are_found_in_one_piece_and_byte_by_byte() -> None:
    assert await parse([INPUT]) == EXPECTED
    assert await parse([INPUT[i : i + 1] for i in range(len(INPUT))]) == EXPECTED
    for cut in range(1, len(INPUT)):
        assert await parse([INPUT[:cut], INPUT[cut:]]) == EXPECTED


@pytest.mark.parametrize("subject", [b"a.\xff", b"a.\x0bb", b"a.\x0cb.c", b"a.\x85", b"a.\x00\x1b", b"a.\xe2\x80\xa8"])
async def test_a_subject_ends_at_a_space_and_is_text_whatever_it_holds(subject: bytes) -> None:
    line = b"MSG %b 1 $JS.ACK.x 2\r\n{}\r\nHMSG %b 1 %d %d\r\n%b\r\n" % (subject, subject, *[len(HEADER)] * 2, HEADER)
    assert await parse([line]) == [(subject, b"$JS.ACK.x", b"", b"{}"), (subject, b"", HEADER, b"")]
    assert text(subject).encode()


async def test_what_a_handler_raises_is_told_and_those_after_it_are_handled() -> None:
    connection, seen = Connection(), list[bytes]()

    def handle(subject: bytes, *_: bytes) -> None:
        seen.append(subject)
        raise ValueError(subject)

    connection.routes[b"1"] = handle
    with capture_logs() as told:
        await connection._ps.parse(b"MSG a.\xff 1 0\r\n\r\nMSG b 1 0\r\n\r\nMSG c x 0\r\n\r\n")
    assert seen == [b"a.\xff", b"b"]
    assert [(each["event"], each["subject"]) for each in told] == [
        ("bus.unhandled", "a.\\xff"), ("bus.unhandled", "b"), ("bus.unhandled", "c")]


@given(st.binary(max_size=40))
def test_numbers_of_others_are_numbers_or_none(word: bytes) -> None:
    assert number(word, -1) == (int(word) if word.isdigit() and len(word) < 20 else -1)
    assert status_of(b"NATS/1.0 " + word) >= 0
    assert stored_headers(word) is None or stored_headers(b"NATS/1.0\r\n" + word)
    ack_subject(word)


_text = st.text(st.characters(codec="ascii", exclude_characters="\r\n", exclude_categories=["Cc"]))
_keys = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1)


@given(st.dictionaries(_keys, _text.map(str.strip), min_size=1))
def test_headers_come_back(headers: dict[str, str]) -> None:
    block = header_block(headers)
    assert parse_headers(block) == headers
    assert status_of(block) == 0


def test_a_status_is_told_from_a_message() -> None:
    assert status_of(b"NATS/1.0 404 No Messages\r\n\r\n") == 404
    assert status_of(b"NATS/1.0 503\r\n\r\n") == 503
    assert status_of(HEADER) == 0


def test_the_expected_sequence_of_a_record_is_not_a_header_of_it() -> None:
    block = b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 7\r\n\r\n"
    assert stored_headers(block) is None
    assert stored_headers(b"") is None
    assert stored_headers(HEADER) == {"A": "b"}


def test_a_publish_names_its_sizes() -> None:
    assert pub("a", "", b"xy") == b"PUB a 2\r\nxy\r\n"
    assert pub("a", "r", b"xy") == b"PUB a r 2\r\nxy\r\n"
    assert pub("a", "r", b"xy", HEADER) == b"HPUB a r 18 20\r\n" + HEADER + b"xy\r\n"


def test_a_line_that_would_end_the_connection_is_not_made() -> None:
    assert len(pub("s" * 3840, "r" * 200, b"")) < 4096
    with pytest.raises(Refused, match="over the broker's limit"):
        pub("s" * 3840, "r" * 300, b"")


@pytest.mark.parametrize("subject", ["", "a b", "a\r\nb", "a..b", "a\x00b", "a\ud800", "x" * 3841, "é" * 1921])
def test_what_is_no_subject_is_refused_in_few_words(subject: str) -> None:
    with pytest.raises(Refused) as refused:
        check_subject(subject)
    assert len(str(refused.value)) < 600


def test_both_forms_of_the_ack_subject_are_read() -> None:
    short = ack_subject(b"$JS.ACK.S.C.2.30.4.1700.9")
    assert short == ack_subject(b"$JS.ACK.hub.HASH.S.C.2.30.4.1700.9.x")
    assert short is not None
    assert (short.delivered, short.seq, short.consumer_seq, short.timestamp) == (2, 30, 4, 1700)
