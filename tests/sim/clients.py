"""The simulated clients of the broker: each can be frozen, silent, or dead."""

import asyncio

from tests.sim.loop import now


class Line:
    """A client's connection: silent for a while, then what was said arrives late, or is lost with the connection."""

    def __init__(self) -> None:
        self.reconnects = 0
        self._silent_until, self._cut = 0.0, False

    def silence(self, seconds: float, *, cut: bool) -> None:
        self._silent_until, self._cut = asyncio.get_running_loop().time() + seconds, cut
        if cut:
            asyncio.get_running_loop().call_later(seconds, self.reset)

    def reset(self) -> None:
        self.reconnects += 1

    def speak(self) -> None:
        self._silent_until = 0.0

    @property
    def silent_s(self) -> float:
        """For how long it will be."""
        return max(0.0, self._silent_until - asyncio.get_running_loop().time())

    async def arrives(self) -> bool:
        """Once it arrives; false: it never does."""
        while self.silent_s:
            lost = self._cut
            await asyncio.sleep(self.silent_s)
            if lost:
                return False
        return True


class Client:
    """One incarnation of a service: it can be frozen and go on later, or die."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.line = Line()
        self.clock = ClientClock(self)
        self.crash_after = -1  # operations
        self.pauses: dict[str, float] = {}  # after the next such operation, for so many seconds
        self.away: list[tuple[float, float]] = []  # frozen or silent, from and until
        self.held_up: list[float] = []  # a request or its answer was slow or lost
        self._thaw: asyncio.Event | None = None
        self._frozen_at = 0.0

    def freeze(self) -> None:
        if self._thaw is None:
            self._thaw, self._frozen_at = asyncio.Event(), now()

    def thaw(self) -> None:
        if self._thaw is not None:
            self.away.append((self._frozen_at, now()))
            self._thaw.set()
            self._thaw = None

    def pause(self, seconds: float) -> None:
        self.freeze()
        asyncio.get_running_loop().call_later(seconds, self.thaw)

    def silence(self, seconds: float, *, cut: bool) -> None:
        self.line.silence(seconds, cut=cut)
        self.away.append((now(), now() + seconds))

    def was_hindered(self, since: float, until: float) -> bool:
        """Something kept it from being in time with what it has to say."""
        away = [*self.away, (self._frozen_at, until)] if self._thaw is not None else self.away
        held_up = any(since < at < until for at in self.held_up)
        return self.dead or held_up or any(begun < until and since < ended for begun, ended in away)

    async def awake(self) -> None:
        """Returns at once for a healthy client, later for a frozen one, never for a dead one."""
        while self._thaw is not None:
            await self._thaw.wait()
        if self.dead:
            await asyncio.get_running_loop().create_future()


class ClientClock:
    def __init__(self, client: Client) -> None:
        self._client = client

    def now(self) -> float:
        return now()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._client.awake()
