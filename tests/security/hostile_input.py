"""What nobody should send, beside records (`forgeries.py`) and templates: requests and heartbeats."""

import msgspec

DEEP = b"[" * 100_000
CONTROL = b'{"path":"' + b"\\u0007" * 150_000 + b'"}'

REQUESTS: tuple[tuple[str, bytes], ...] = (
    ("nothing", b""),
    ("no JSON", b"{"),
    ("no text", b'{"path":"\xff\xfe"}'),
    ("zeros", b"\x00" * 1000),
    ("a list", b"[]"),
    ("a number", b"1"),
    ("deep", DEEP),
    ("deep payload", b'{"path":"bench/chain","payload":{"a":' + DEEP + b"}}"),
    ("control characters", b'{"path":"' + b"\x01" * 900_000 + b'"}'),
    ("escaped control characters", CONTROL),
    ("no path", b"{}"),
    ("a path without end", msgspec.json.encode({"path": "a/" * 3000})),
    ("a path that is none", msgspec.json.encode({"path": "a b\r\n> *"})),
    ("an execution id that is none", msgspec.json.encode({"path": "bench/chain", "execution_id": "a.b.>"})),
    ("an execution id without end", msgspec.json.encode({"path": "bench/chain", "execution_id": "x" * 5000})),
    ("a forged parent", msgspec.json.encode({
        "path": "bench/chain", "parent": {"execution_id": "another", "run_id": "start:1", "step": "start"}})),
    ("labels without end", msgspec.json.encode({
        "path": "bench/chain", "labels": {f"l{n}": "x" * 100 for n in range(5000)}})),
    ("a payload of text", msgspec.json.encode({"path": "bench/chain", "payload": "text"})),
    ("a huge number", b'{"path":"bench/chain","priority":' + b"9" * 5000 + b"}"),
    ("escapes", msgspec.json.encode({"path": "\x1b]52;c;eA==\x07\x1b[2J"})),
)

BEATS: tuple[tuple[str, bytes], ...] = (
    ("two bytes", b"{}"),
    ("nothing", b""),
    ("no JSON", b"\xff\xfe"),
    ("a list", b"[]"),
    ("deep", DEEP),
    ("another pool's", msgspec.json.encode({"worker": "w", "pool": "default", "slots": 1 << 40})),
    ("another's runs", msgspec.json.encode({"worker": "liar", "pool": "other", "held": [["x", "y", "z"]]})),
    ("numbers beyond all", msgspec.json.encode({
        "worker": "liar", "pool": "other", "slots": -1, "room": 1 << 60, "started": 1e300, "skew": -1e300})),
    ("names without end", msgspec.json.encode({"worker": "w" * 100_000, "pool": "other", "host": "\x1b[2J" * 1000})),
    ("runs without end", msgspec.json.encode({
        "worker": "liar", "pool": "other", "held": [[f"x{n}", "start:1", -1] for n in range(10_000)]})),
)
