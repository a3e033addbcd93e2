"""Connections of `kind: nats`, kept between calls: one for each server and credential. They are the author's
own; the engine's broker and account are never used."""

import asyncio
import contextlib
import errno
import re
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct

from shared.tools.base.contract import Call
from shared.tools.base.guard import BadCall

if TYPE_CHECKING:
    from nats.aio.client import Client

MAX_LINKS = 16
CONNECT_TIMEOUT_S = 5
_ALIASES = {"nats_url": "url", "server": "url", "servers": "url", "username": "user", "nats_user": "user",
            "nats_password": "password", "nats_token": "token"}
_UNSUPPORTED = ("creds", "credentials", "jwt", "nkey", "nkeys_seed", "seed", "tls_cert", "tls_key")
_SCHEMES = ("nats", "tls", "ws", "wss")
_SUBJECT = re.compile(r'"([^"]+)"')


class Target(Struct, frozen=True):
    """Where and as whom to connect; equal targets share a connection."""

    servers: tuple[str, ...]
    user: str | None = None
    password: str | None = None
    token: str | None = None


def target(call: Call) -> Target:
    """The credential; keys of the task of the same names go before it."""
    given = {name: call.config[name] for name in ("url", "user", "password", "token") if call.config.get(name)}
    found = {**_named(call.auth or {}), **given}
    for name in _UNSUPPORTED:
        if found.get(name):
            raise BadCall(f"a credential with {name} is not supported: give url with user and password, or token")
    url = found.get("url")
    servers = url if isinstance(url, list) else str(url or "").split(",")
    servers = [str(each).strip() for each in servers if str(each).strip()]
    if not servers:
        raise BadCall("no server to connect to: give auth with url, and user and password, or token")
    if not all(map(_is_address, servers)):  # not repeated: it may hold a password
        raise BadCall("the address of the server cannot be used: write nats://host:4222")
    fields = {name: str(found[name]) for name in ("user", "password", "token") if found.get(name)}
    return Target(tuple(servers), **fields)


def place(where: Target, credential: str) -> str:
    """Where that is, for an error; what may stand before an address is not repeated."""
    servers = ", ".join(server.rpartition("@")[2] for server in where.servers)
    return servers + (f" (credential {credential})" if credential else "")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text if "://" in text else f"nats://{text}")
        return parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _named(credential: Mapping[str, Any]) -> dict[str, Any]:
    return {_ALIASES.get(str(name), str(name)): value for name, value in credential.items()}


class Link:
    """A connection, and what the server refused on it: it says so apart from any answer."""

    def __init__(self, client: "Client") -> None:
        self.client = client
        self.users = 0
        self._refusals: dict[str, set[asyncio.Future[str]]] = {}
        self.failure: Exception | None = None
        self._gone = asyncio.Event()

    async def closed(self) -> None:
        self._gone.set()

    async def during(self, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        """The work's answer; an error at once when the connection is lost, which nobody else tells it."""
        task, gone = asyncio.ensure_future(work), asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ConnectionResetError(errno.ECONNRESET, "the connection was lost")
            return task.result()
        finally:
            task.cancel()
            gone.cancel()
            await asyncio.wait({task, gone})

    async def note(self, error: Exception) -> None:
        self.failure = error
        found = _SUBJECT.search(str(error))
        for refusal in self._refusals.get(found.group(1), ()) if found else ():
            if not refusal.done():
                refusal.set_result(str(error).removeprefix("nats: "))

    @contextlib.contextmanager
    def refusal(self, subject: str) -> "Iterator[asyncio.Future[str]]":
        """Done as soon as the server says that this user may not send there."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        subject = subject.lower()  # nats-py gives the server's words in lower case
        waiting = self._refusals.setdefault(subject, set())
        waiting.add(future)
        try:
            yield future
        finally:
            waiting.discard(future)
            if not waiting:
                self._refusals.pop(subject, None)


class Links:
    def __init__(self) -> None:
        self._links: dict[Target, asyncio.Task[Link]] = {}

    @contextlib.asynccontextmanager
    async def link(self, where: Target, *, own: bool) -> AsyncIterator[Link]:
        """`own`: for what subscribes, a connection that ends with the call, so that nothing stays behind."""
        if own:
            link = await _connect(where)
            try:
                yield link
            finally:
                await link.client.close()
            return
        link = await self._kept(where)
        link.users += 1
        try:
            yield link
        finally:
            link.users -= 1

    async def _kept(self, where: Target) -> Link:
        made = self._links.pop(where, None)
        if made is None or (made.done() and (made.exception() is not None or made.result().client.is_closed)):
            await self._make_room()
            made = asyncio.create_task(_connect(where))
            made.add_done_callback(_seen)
        self._links[where] = made  # last: the most recently used
        return await asyncio.shield(made)

    async def _make_room(self) -> None:
        for where, made in list(self._links.items()):
            if len(self._links) < MAX_LINKS:
                return
            if made.done() and (made.exception() is not None or not made.result().users):
                del self._links[where]
                await _close(made)

    async def close(self) -> None:
        links, self._links = self._links, {}
        for made in links.values():
            await _close(made)


def _seen(made: "asyncio.Task[Link]") -> None:
    if not made.cancelled():
        made.exception()  # reported to those who waited, if anyone still does


async def _close(made: "asyncio.Task[Link]") -> None:
    if not made.done():
        made.cancel()
        await asyncio.wait({made})
    if not made.cancelled() and made.exception() is None:
        await made.result().client.close()


async def _connect(where: Target) -> Link:
    """The first server that answers. A connection that is lost is not mended: the next call makes a new one."""
    from nats.aio.client import Client
    from nats.errors import NoServersError

    failure: Exception = OSError("no server")
    for server in where.servers:
        link = Link(Client())
        try:
            await link.client.connect(
                server, user=where.user, password=where.password, token=where.token, allow_reconnect=False,
                connect_timeout=CONNECT_TIMEOUT_S, max_reconnect_attempts=1, reconnect_time_wait=0,
                error_cb=link.note, closed_cb=link.closed, name="noetl",
            )
            return link
        except BaseException as error:
            reason = link.failure if isinstance(error, NoServersError) else None
            await link.client.close()  # nothing that was begun stays open
            if not isinstance(error, Exception):
                raise
            failure = reason or error
    raise failure
