"""The accounts of a broker, kept by a keyring in a folder, in whichever of the three modes it is.

`accounts`: the part of the configuration is written, and every server reads it, and reads it once more: a new account's
imports work only then. `jwt`: the accounts that are other than before are pushed. `shared`: there is one user, whatever
pools there are.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog
from msgspec.structs import replace

from shared.bus.permissions import SYSTEM_USER, worker_user
from shared.bus.ports import Clock
from shared.errors import Unavailable
from shared.runtime.broker_auth import documents, folder, system
from shared.runtime.broker_auth.keyring import Keyring, with_pools
from shared.runtime.broker_auth.probe import gets_through
from shared.runtime.service.settings import Settings

LOOK_S = 0.2
TRIES = 25
log = structlog.get_logger()


class KeptAccounts:
    """`broker` says where the broker is, not who one is there. `clock` says when a token is issued, or a key revoked:
    compared with nothing but other tokens of the same keyring."""

    def __init__(self, place: Path, broker: Settings, clock: Clock) -> None:
        self._place, self._broker, self._clock = place, broker, clock
        self._told: set[str] = set()  # tokens that the broker has; at first all are pushed

    @property
    def keyring(self) -> Keyring:
        found = folder.read(self._place / folder.KEYRING)
        if found is None:
            raise Unavailable(f"no keyring in {self._place}: make one with `noetlctl admin nats-auth ensure`")
        return found

    async def settle(self, pools: tuple[str, ...], fresh: Sequence[str]) -> None:
        await self.change(lambda keyring: with_pools(keyring, pools), fresh)

    async def change(self, how: Callable[[Keyring], Keyring], fresh: Sequence[str] = ()) -> Keyring:
        """The keyring is other, and the broker knows it. Whoever is taken away is cut off; of others nobody is."""
        handle = await asyncio.to_thread(folder.hold, self._place)
        try:
            return await self._change(how, fresh)
        finally:
            os.close(handle)

    async def _change(self, how: Callable[[Keyring], Keyring], fresh: Sequence[str]) -> Keyring:
        before = self.keyring
        after = documents.ready(how(before), int(self._clock.now()))
        if after.mode == "shared":
            folder.write(self._place, after)
            return after
        keeper = await system.connected(as_user(self._broker, self._place, before, SYSTEM_USER))
        try:  # it was let in as it is known there; should it be cut off by this, it comes again with its new file
            folder.write(self._place, after)
            await self._tell(keeper, after, fresh)
        finally:
            await keeper.close()
        return after

    async def _tell(self, keeper: system.System, after: Keyring, fresh: Sequence[str]) -> None:
        for _ in range(TRIES):
            try:
                await (self._push(keeper, after) if after.mode == "jwt" else _reload(keeper))
                workers = (as_user(self._broker, self._place, after, worker_user(name)) for name in fresh)
                if all([await gets_through(worker) for worker in workers]):
                    return
            except Unavailable as error:
                log.warning("accounts.wait", error=str(error))
            await asyncio.sleep(LOOK_S)
        who = ", ".join(fresh) or "the keyring"
        raise Unavailable(f"the server does not take the accounts of {who} (does it include {documents.SERVER_FILE}?)")

    async def _push(self, keeper: system.System, keyring: Keyring) -> None:
        for token in documents.account_tokens(keyring).values():
            if token not in self._told:
                await keeper.push(token)
                self._told.add(token)


async def _reload(keeper: system.System) -> None:
    await keeper.reload()
    await asyncio.sleep(LOOK_S)
    await keeper.reload()


def as_user(broker: Settings, place: Path, keyring: Keyring, user: str) -> Settings:
    """The broker's settings for one of its users."""
    file = str(place / documents.user_file(keyring, user))
    creds, nkey = (file, "") if keyring.mode == "jwt" else ("", file)
    pool = user.removeprefix(worker_user("")) if user.startswith(worker_user("")) else ""
    role = {"role": "worker", "pool": pool} if pool else {"role": "" if user == SYSTEM_USER else user}
    return replace(broker, nats_user="", nats_password="", nats_creds_file=creds, nats_nkey_file=nkey, **role)
