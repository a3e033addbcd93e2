"""What the checks look at: the stack a command talks to, and all that is known of it from outside."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from services.cli.stack.broker_files import BrokerFiles, fetch
from shared.bus.jetstream import JetStreamBus
from shared.runtime.service.settings import Settings


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

    @property
    def files(self) -> BrokerFiles:
        return BrokerFiles(self.folder, self.monitor)


def bare(url: str) -> str:
    """Without the password that may be in it."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
