"""nats-py, imported in one place. It imports aiohttp, for web sockets alone, whenever that is installed: a quarter of
the time that a service or a command takes to start. Here it gets a stand-in that loads it when it is first used."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Later(ModuleType):
    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


_IS_THERE = "aiohttp" in sys.modules
if not _IS_THERE:
    sys.modules["aiohttp"] = _Later("aiohttp")

from nats.aio.client import Client  # noqa: E402
from nats.aio.subscription import Subscription  # noqa: E402
from nats.aio.transport import TcpTransport, Transport  # noqa: E402
from nats.errors import Error, ProtocolError  # noqa: E402

if not _IS_THERE:
    del sys.modules["aiohttp"]  # whoever else imports it gets the whole

__all__ = ["Client", "Error", "ProtocolError", "Subscription", "TcpTransport", "Transport"]
