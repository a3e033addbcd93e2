"""Who was given which command, and whether its lease may end: only a worker that is away, cut off or gone loses one."""

from typing import NamedTuple

from tests.sim.clients import Client

WELL_S = 2.0  # after so much time in good health a worker has extended what it holds
Message = tuple[int, int]  # of a command: its sequence, and when the broker took it


class Held(NamedTuple):
    client: Client
    since: float  # when the client had it in its hands


class Lost(NamedTuple):
    at: float
    text: str


class Leases:
    def __init__(self) -> None:
        self._held: dict[Message, Held] = {}
        self.delivered: dict[Message, int] = {}  # how often, also once it is acknowledged
        self.lost: list[Lost] = []  # by workers that were well; an outage of the broker may still explain it

    def arrived(self, message: Message, client: Client, at: float) -> None:
        self._held[message] = Held(client, at)

    def let_go(self, message: Message) -> None:
        """Its holder acknowledges it or hands it back, whether or not that arrives; or one who had it before, whose
        word the broker accepts too."""
        self._held.pop(message, None)

    def forget(self) -> None:
        """All of them end, and it is nobody's fault."""
        self._held.clear()

    def given(self, message: Message, delivered: int) -> None:
        self.delivered[message] = max(delivered, self.delivered.get(message, 0))

    def given_again(self, message: Message, subject: str, ended: float) -> None:
        """Someone is given it anew, because its lease ended then."""
        held = self._held.pop(message, None)
        if held is None or held.since > ended - WELL_S or held.client.was_hindered(ended - WELL_S, ended):
            return
        had = f"had it for {ended - held.since:.1f} s and was well"
        self.lost.append(Lost(ended, f"lease: {subject} of {held.client.name} ended, which {had}"))
