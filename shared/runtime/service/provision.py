"""What the settings say of the streams that are made: copies, servers, sizes."""

import re
from typing import TYPE_CHECKING

from shared.bus import topology
from shared.bus.topology import Provision
from shared.runtime.service import retention

if TYPE_CHECKING:
    from shared.runtime.service.settings import Settings

_SIZE = re.compile(r"(?:([a-z]+)=)?(\d{1,18})(|[KMGT]i?B?)")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_TAG = re.compile(r"[^\s,]{1,128}")
EXAMPLE = "results=20GiB,commands=512MiB"
LEAST = 1 << 20  # bytes: a single message may be so large


def wrong(settings: "Settings") -> str:
    """The setting that cannot be used; empty when all is well."""
    for tag in settings.placement:
        if not _TAG.fullmatch(tag.strip()):
            return f"NOETL_PLACEMENT: {tag[:80]!r} is not a tag of a server"
    try:
        retention.parsed(settings.retention)
    except retention.BadRetention as error:
        return f"NOETL_RETENTION: {error}"
    seen = set[str]()
    for each in settings.max_bytes:
        found = _SIZE.fullmatch(each.strip())
        if found is None or int(found[2]) == 0:
            return f"NOETL_MAX_BYTES: {each[:80]!r} is not a size such as {EXAMPLE}"
        if _bytes(found) < LEAST:
            return f"NOETL_MAX_BYTES: {each[:80]!r} is too little, at least 1MiB: one message may be so large"
        name = found[1] or ""
        if name == "events":
            return "NOETL_MAX_BYTES: the log has no limit: at one, every execution would stop"
        if name and name not in topology.LIMITED:
            return f"NOETL_MAX_BYTES: there is no stream {name!r}, but {', '.join(topology.LIMITED)}"
        if name in seen:
            return f"NOETL_MAX_BYTES: {name or 'the size of all'} is there twice"
        seen.add(name)
    return ""


def provision(settings: "Settings") -> Provision:
    return Provision(settings.replicas, tuple(tag.strip() for tag in settings.placement), sizes(settings.max_bytes))


def sizes(given: tuple[str, ...]) -> dict[str, int]:
    """By stream. A size without a name is that of each one that has none of its own."""
    named: dict[str, int] = {}
    for each in given:
        found = _SIZE.fullmatch(each.strip())
        assert found is not None, "settings are checked when they are read"
        named[found[1] or ""] = _bytes(found)
    every = named.get("")
    return {
        stream: named.get(name, every or 0) for name, stream in topology.LIMITED.items() if name in named or every
    }


def _bytes(found: "re.Match[str]") -> int:
    return int(found[2]) * int(1024 ** _POWERS[found[3][:1]])
