"""What any client may publish: read, or refused with a reason, whatever the bytes are."""

import pytest

from shared.errors import Corrupt
from shared.events.request import (
    MAX_CONTROL_BYTES,
    MAX_REQUEST_BYTES,
    Control,
    Request,
    decode,
    decode_control,
    decode_derived,
    default_id,
    derive_id,
)

DEEP = b'{"path": "a", "execution_id": "x", "payload": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}"


def test_a_request_and_a_wish_are_read() -> None:
    assert decode(b'{"path": "a/b", "payload": {"n": 1}}') == Request("a/b", payload={"n": 1})
    assert decode(b'{"playbook_id": "a/b@1"}') == Request(playbook_id="a/b@1")
    assert decode_control(b'{"execution_id": "x-1", "reason": "enough"}') == Control("x-1", "enough")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "must be JSON like"),
        (b"[]", "must be JSON like"),
        (b'{"path": ""}', "needs `path`"),
        (b'{"path": "a", "payload": [1]}', r"at `\$.payload`\)*: the payload is a mapping, whose keys replace those"),
        (b'{"path": "a", "execution_id": "a b"}', "may hold letters"),
        (b'{"path": "a", "playbook_id": "a@1"}', "not by both"),
        (b'{"version": "1", "playbook_id": "a@1"}', "not by both"),
        (b'{"path": "a", "paylod": {}}', "no field `paylod`: did you mean `payload`"),
        (b'{"path": "a", "\\u001b[2J": 1}', r"no field `.u001b.2J`: known are by, execution_id, labels, path"),
        (b'{"path": "a", "execution_id": "--help"}', "does not begin with -"),
        (b'{"path": "a", "execution_id": "0123456789abcdef0123"}', "the engine's own"),
        (b'{"path": "' + b"x" * MAX_REQUEST_BYTES + b'"}', "the limit is 524288"),
        (DEEP, "nested too deeply"),
    ],
)
def test_a_bad_request_is_corrupt_and_says_why(data: bytes, says: str) -> None:
    with pytest.raises(Corrupt, match=says):
        decode(data)


def test_a_derived_id_is_for_the_engine_to_ask_for() -> None:
    asked = b'{"path": "a", "execution_id": "%b"}'
    derived = derive_id("child", "x").encode()
    assert decode_derived(asked % derived).execution_id == derived.decode()
    for own in (b"", b"0123456789ABCDEF0123", b"0123456789abcdef01234", b"-a"):
        with pytest.raises(Corrupt):
            decode_derived(asked % own)
    for own in (b"", b"0123456789ABCDEF0123", b"0123456789abcdef01234", b"a-", b"_"):
        assert decode(asked % own).execution_id == own.decode()


def test_the_id_of_a_request_that_names_none_comes_from_its_key_in_either_header_or_its_place() -> None:
    for headers in ({"Nats-Msg-Id": "k"}, {"Noetl-Request-Id": "k"}, {"Noetl-Request-Id": "k", "Nats-Msg-Id": "other"}):
        assert default_id(headers, 5, 7) == derive_id("id", "k")
    assert default_id({}, 5, 7) == default_id(None, 5, 7) == derive_id("seq", 5, 7)


def test_an_older_execution_whose_id_begins_with_a_dash_can_still_be_cancelled() -> None:
    assert decode_control(b'{"execution_id": "--help"}').execution_id == "--help"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"{}", "must be JSON like"),
        (b'{"execution_id": ""}', "may hold letters"),
        (b'{"execution_id": "x", "force": true}', "no field `force`: known are by, execution_id, grace_s"),
        (b'{"execution_id": "x", "reason": "' + b"x" * MAX_CONTROL_BYTES + b'"}', "the limit is 131072"),
        (DEEP, "nested too deeply"),
    ],
)
def test_a_bad_wish_is_corrupt_and_says_why(data: bytes, says: str) -> None:
    with pytest.raises(Corrupt, match=says):
        decode_control(data)
