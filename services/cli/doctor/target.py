"""What the checks look at: the stack a command talks to, and all that is known of it from outside."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from shared.bus.jetstream import JetStreamBus
from shared.errors import Unavailable
from shared.runtime.service.settings import Settings

MONITOR_S = 5.0
MAX_MONITOR_BYTES = 4 * 1_048_576


class Patient(Struct):
    """`users` are the passwords of a context file, `folder` is where that lies, `monitor` the broker's HTTP address."""

    bus: JetStreamBus
    settings: Settings
    users: dict[str, str] = {}
    health: dict[str, str] = {}
    folder: Path | None = None
    monitor: str = ""

    async def varz(self) -> dict[str, Any] | None:
        """What the broker says at its monitoring address, if one was given."""
        return await fetch(self.monitor.rstrip("/") + "/varz") if self.monitor else None

    async def healthz(self) -> dict[str, Any] | None:
        """What the broker says of its health, at the monitoring address that was given or that of an embedded one."""
        own = self.server_config().get("http", "")
        address = self.monitor.rstrip("/") or (f"http://{own}" if own else "")
        return await fetch(address + "/healthz") if address else None

    def server_config(self) -> Mapping[str, Any]:
        """Of an embedded server, which lies beside its context file."""
        path = self.folder / "nats" / "nats.conf" if self.folder is not None else None
        if path is None or not path.is_file():
            return {}
        found: dict[str, Any] = msgspec.json.decode(path.read_bytes())
        return found

    def store(self) -> Path | None:
        """Where the broker keeps its files, if that is on this machine."""
        place = self.server_config().get("jetstream", {}).get("store_dir")
        return Path(place) if place else None


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


def bare(url: str) -> str:
    """Without the password that may be in it."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
