"""The files of a stack's broker, as far as they can be seen from here, and whether it can write to them."""

import asyncio
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from shared.bus import api, topology
from shared.bus.codes import NotFound
from shared.bus.jetstream import JetStreamBus
from shared.errors import NoetlError, Unavailable

MONITOR_S = 5.0
MAX_MONITOR_BYTES = 4 * 1_048_576
LEAST_BYTES = 256 * 1024  # with less free, or left of a limit, not even a small record is sure to be written
LEAST_RECORD = 1024  # with less left of a limit of a stream, not even a small record is sure to be written
WRITE_ERROR = "write error"


class BrokerFiles(NamedTuple):
    """`folder` is where the context file of an embedded broker lies, `monitor` the HTTP address that was given."""

    folder: Path | None = None
    monitor: str = ""

    def config(self) -> Mapping[str, Any]:
        """Of an embedded server, which lies beside its context file."""
        path = self.folder / "nats" / "nats.conf" if self.folder is not None else None
        if path is None or not path.is_file():
            return {}
        found: dict[str, Any] = msgspec.json.decode(path.read_bytes())
        return found

    def store(self) -> Path | None:
        """If it is on this machine."""
        place = self.config().get("jetstream", {}).get("store_dir")
        return Path(place) if place else None

    async def health(self) -> dict[str, Any] | None:
        """What the broker says of it at the monitoring address that was given, or that of an embedded one."""
        own = self.config().get("http", "")
        address = self.monitor.rstrip("/") or (f"http://{own}" if own else "")
        return await fetch(address + "/healthz") if address else None

    async def refusal(self, bus: JetStreamBus) -> str:
        """Why the broker accepts no writes; empty: nothing is known of that."""
        try:
            error = str((await self.health() or {}).get("error", ""))
            if WRITE_ERROR in error:
                return error
            return self._full() or exhausted(await bus.requests.api(api.INFO)) or await limited(bus)
        except NoetlError:  # what cannot be asked refuses nothing
            return self._full()

    def _full(self) -> str:
        store = self.store()
        if store is None or not store.exists():
            return ""
        stat = os.statvfs(store)
        free = stat.f_bavail * stat.f_frsize
        return f"{free} bytes are free at {store}" if free < LEAST_BYTES else ""


def exhausted(info: Mapping[str, Any]) -> str:
    """Of the account's limit, where it has one."""
    limit, used = int(info["limits"]["max_storage"]), int(info["storage"])
    return f"{used} bytes are used of the account's {limit}" if 0 <= limit < used + LEAST_BYTES else ""


async def limited(bus: JetStreamBus) -> str:
    """Of a limit that somebody has set on the log, or on the queue and other streams that refuse what is new then."""
    for name in chain(topology.LIMITED.values(), map(topology.events_stream, count())):
        try:
            info = await bus.requests.api(api.stream_info(name))
        except NotFound:
            if name in topology.LIMITED.values():
                continue
            break
        config, state = info["config"], info["state"]
        if config.get("discard") != "new":
            continue
        if 0 < config["max_bytes"] < state["bytes"] + LEAST_RECORD:
            return f"{name} has {state['bytes']} bytes of the {config['max_bytes']} that its max_bytes allows"
        if 0 < config["max_msgs"] <= state["messages"]:
            return f"{name} has {state['messages']} messages, and its max_msgs allows {config['max_msgs']}"
    return ""


async def fetch(url: str) -> dict[str, Any]:
    if urlsplit(url).scheme not in ("http", "https"):
        raise Unavailable(f"not an http address: {url}")
    return await asyncio.to_thread(_fetch, url)


def _fetch(url: str) -> dict[str, Any]:
    try:
        try:
            answer = urllib.request.urlopen(url, timeout=MONITOR_S)
        except urllib.error.HTTPError as error:  # it answers 503 when it is not well, and says why
            answer = error
        with answer:
            found: dict[str, Any] = msgspec.json.decode(answer.read(MAX_MONITOR_BYTES))
            return found
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise Unavailable(f"no answer from {url}: {error}") from None
