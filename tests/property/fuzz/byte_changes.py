"""Bytes that are almost right: examples with parts inserted, cut, repeated or replaced by what breaks readers."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec

from tests.property.fuzz import tree_changes

VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2, 64, 2**31, 2**63 - 1, 2**64 - 1, -(2**63), 0.5, 1e308, "", "x", "x1", "default", "start:1",
    "\x00", "\x1b]52;c;eA==\x07", "a/" * 3000, "é" * 300, "9" * 300, ".>", "a b\r\n", "never", [], {}, [[]], [1, 2],
    ["x1", "start:1", -1], {"a": {"b": []}}, ["a"] * 5000, {"$ref": 1},
)

NASTY = (
    b"\xff", b"\x00", b"\x01" * 9, b"\xed\xa0\x80", b"\\ud800", b"\\u0000", b"\\u001b]52;c;", b"[" * 200,
    b"[" * 5000, b'{"a":' * 5000, b"]" * 9, b"null", b"true", b"-1", b"1e309",
    b"-1e308", b"9" * 400, b"9223372036854775808", b"0.1",
    b'""', b"{}", b"[]", b"NaN", b'"' + b"a/" * 3000 + b'"', b'"' + "\U0001f600".encode() * 300 + b'"', b'".>"',
    b'"a b\\r\\n"', b",", b":", b'"',
)


def document(rng: random.Random, examples: Sequence[bytes]) -> bytes:
    """One of the examples, all of JSON: its values changed, or its bytes."""
    if rng.random() < 0.5:
        return mutated(rng, examples)
    tree = msgspec.json.decode(rng.choice(examples))
    other = msgspec.json.decode(rng.choice(examples))
    for _ in range(rng.choice((1, 1, 2, 3))):
        if rng.random() < 0.2:
            tree_changes.graft(rng, tree, other)
        else:
            tree_changes.change(rng, tree, VALUES)
    return msgspec.json.encode(tree)


def mutated(rng: random.Random, examples: Sequence[bytes]) -> bytes:
    data = bytearray(rng.choice(examples))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 8))):
        at, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        match rng.randrange(6):
            case 0:
                data[at:at] = rng.choice(NASTY)
            case 1:
                data[at:end] = b""
            case 2:
                data[at:end] = rng.choice(NASTY)
            case 3:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 4:
                data[at:at] = data[at:end] * rng.randrange(1, 4)
            case _:
                _value(rng, data)
    return bytes(data[:1_000_000])


def _value(rng: random.Random, data: bytearray) -> None:
    """Another value for one of its keys: it stays JSON."""
    keys = [at for at, byte in enumerate(data) if byte == ord(":")]
    if keys:
        at = rng.choice(keys) + 1
        end = next((each for each in range(at, len(data)) if data[each] in b",}]"), len(data))
        data[at:end] = rng.choice(NASTY)
