"""Whoever keeps the accounts of a broker, at work: as the user `system` it hands over accounts that the operator has
signed, or has each server read its configuration again."""

import asyncio

import msgspec
from msgspec import Struct

from shared.bus import permissions
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.wire import pub
from shared.errors import Refused, Unavailable
from shared.events.subjects import inbox_prefix
from shared.runtime.service import login
from shared.runtime.service.settings import Settings

SERVERS_S = 0.5  # in which every server of a cluster says that it is there
ANSWER_S = 5.0


class _Said(Struct):
    description: str = ""
    message: str = ""


class _Answer(Struct):
    error: _Said | None = None


class _Server(Struct):
    id: str


class _Here(Struct):
    server: _Server


class System:
    def __init__(self, bus: JetStreamBus) -> None:
        self._bus = bus

    async def close(self) -> None:
        await self._bus.close()

    async def push(self, token: str) -> None:
        """An account, which works when this returns. Connections stay, but for those of users that are revoked."""
        await self._ask(permissions.CLAIMS_UPDATE, token.encode())

    async def reload(self) -> None:
        """Every server there is reads its configuration again."""
        for server in await self._servers():
            await self._ask(permissions.reload_of(server), b"")

    async def _ask(self, subject: str, data: bytes) -> None:
        _, said = await self._bus.requests.one(subject, data, ANSWER_S)
        if not said:
            raise Refused(f"no server takes {subject}: it is one of another mode")
        try:
            error = msgspec.json.decode(said, type=_Answer).error
        except msgspec.MsgspecError:
            raise Unavailable(f"an answer that cannot be read for {subject}") from None
        if error is not None:
            raise Refused(f"the server does not take it: {error.description or error.message}")

    async def _servers(self) -> list[str]:
        inbox = await self._bus.subscribe(f"{inbox_prefix(permissions.SYSTEM_USER)}.servers")
        found: list[str] = []
        try:
            self._bus.connection.write(
                pub(permissions.SERVERS, f"{inbox_prefix(permissions.SYSTEM_USER)}.servers", b"")
            )
            while True:
                async with asyncio.timeout(SERVERS_S):
                    found.append(msgspec.json.decode(await inbox.next(), type=_Here).server.id)
        except TimeoutError:
            return found
        except msgspec.MsgspecError:
            raise Unavailable("an answer of a server that cannot be read") from None
        finally:
            await inbox.close()


async def connected(settings: Settings) -> System:
    """`settings` name the file of the user `system`."""
    return System(await connect(
        settings.nats_url, name="noetl-accounts", inbox_prefix=inbox_prefix(permissions.SYSTEM_USER),
        files=login.files(settings),
    ))
