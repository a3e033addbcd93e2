"""Runs inside the version that is recorded, with its modules: worlds of its simulator, and what its records look like.

It stands alone: nothing of this tree is imported but what every recorded version has under the same name.

    python worlds.py peace  > log       every playbook of the simulator once, with nothing going wrong
    python worlds.py 17     > log       the world of a seed, with its faults
    python worlds.py fields > json      every field of every event, and what it is when a record does not have it
"""

import json
import sys
from base64 import b64encode
from typing import Any

import msgspec

from shared.bus import topology
from shared.events.record import Record
from tests.sim import run
from tests.sim.world import PARTITIONS

WANTED = ("NOETL_EVENTS_", "NOETL_RESULTS", f"KV_{topology.PLAYBOOKS}")


def line(subject: str, seq: int, at: int, data: bytes) -> str:
    try:
        return json.dumps([subject, seq, at, data.decode()], ensure_ascii=False)
    except UnicodeDecodeError:
        return json.dumps([subject, seq, at, "", b64encode(data).decode()])


def world(what: str) -> None:
    if what == "peace":
        lived = run.live_in_peace(*(book.name for book in run.BOOKS))
    else:
        with run.quiet():
            lived = run.live(int(what))
    if lived.problems:
        raise SystemExit("\n".join(lived.problems))
    out = [json.dumps({"partitions": PARTITIONS, "forged": sorted(getattr(lived, "forged", ()))})]
    for name, stream in lived.broker.streams.items():
        if name.startswith(WANTED):
            out += [
                line(stored.message.subject, seq, stored.timestamp, stored.message.data)
                for seq, stored in sorted(stream.stored.items())
            ]
    sys.stdout.write("\n".join(out) + "\n")


def fields() -> None:
    found: dict[str, dict[str, Any]] = {}
    describe(msgspec.inspect.type_info(Record), found)
    sys.stdout.write(json.dumps(found, indent=1, sort_keys=True) + "\n")


def describe(kind: Any, found: dict[str, dict[str, Any]]) -> None:
    """Of a type and all that it is made of. By its tag if it has one, or else by its name."""
    if isinstance(kind, msgspec.inspect.StructType):
        name = str(kind.tag or kind.cls.__name__)
        if name in found:
            return
        found[name] = {field.encode_name: default(field) for field in kind.fields}
        for field in kind.fields:
            describe(field.type, found)
    for inner in ("types", "item_types"):
        for each in getattr(kind, inner, ()):
            describe(each, found)
    for inner in ("item_type", "type", "value_type"):
        if hasattr(kind, inner):
            describe(getattr(kind, inner), found)


def default(field: Any) -> Any:
    """As JSON, in a list; an empty one: it has to be there."""
    if field.required:
        return []
    made = field.default is msgspec.NODEFAULT or field.default is msgspec.UNSET
    return [msgspec.to_builtins(field.default_factory() if made else field.default)]


if __name__ == "__main__":
    fields() if sys.argv[1] == "fields" else world(sys.argv[1])
