"""Accounts of pools on the embedded server: it reads its configuration again."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from shared.bus.permissions import worker_user
from shared.errors import Unavailable
from shared.runtime.broker_auth.probe import gets_through
from shared.runtime.embedded.nats_server import NatsServer
from shared.runtime.service.settings import Settings

LOOK_S = 0.2
RELOADS = 25


class ReloadedAccounts:
    def __init__(self, server: NatsServer, admin: Settings) -> None:
        self._server, self._admin = server, admin

    async def settle(self, pools: tuple[str, ...], fresh: Sequence[str]) -> None:
        """A new account's imports work only after the server has read its configuration once more."""
        await asyncio.to_thread(self._server.configure, pools)
        for _ in range(RELOADS):
            self._server.reload()
            await asyncio.sleep(LOOK_S)
            if all([await gets_through(self._worker(name)) for name in fresh]):
                return
        raise Unavailable(f"the server does not take the accounts of {', '.join(fresh)} (see nats.log)")

    def _worker(self, name: str) -> Settings:
        user = worker_user(name)
        return replace(self._admin, nats_user=user, nats_password=self._server.passwords[user])
