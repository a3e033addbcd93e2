"""Who runs the workers of a pool. `process` starts children of this service, `kubernetes` has Deployments; with
`external` someone else does."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from shared.dsl.documents.pools import Pool
from shared.runtime.stores.pools import Crash, WorkerStatus


class Running(Struct, frozen=True):
    """A worker that a backend looks after. `crashes` are its latest. `ready`: the backend too takes it for able to
    work; a worker must also have said that it is there."""

    status: WorkerStatus
    template: str
    crashes: tuple[Crash, ...] = ()
    ready: bool = True


class Attended(Struct, frozen=True):
    """A pool at a look. `held`: how many runs each of its workers has, by its host. `forced`: it was taken over, so
    what others say of it does not count. `deleting`: nothing of it is to stay."""

    pool: Pool
    template: str
    held: Mapping[str, int] = {}
    forced: bool = False
    deleting: bool = False


class Backend(Protocol):
    def attend(self, look: Attended) -> None:
        """What is known of a pool of this backend, before anything is asked."""

    def missing(self, pool: Pool) -> str:
        """Why it cannot start a worker of the pool; empty when it can."""

    def start(self, pool: Pool, template: str, count: int) -> None: ...

    def stop(self, name: str, within_s: float) -> None:
        """It is asked to end, and hands back what it has not finished by then; asked again, the earlier end counts."""

    def kill(self, name: str, why: str) -> None:
        """Its present life is over at once, as if it had ended by itself."""

    def workers(self, pool: str) -> Sequence[Running]: ...

    def pools(self) -> Sequence[str]:
        """Pools that have workers here."""

    async def close(self, within_s: float) -> None:
        """Every worker ends."""


class External:
    """Starts and ends nothing: what is known of its workers is what they say themselves."""

    def attend(self, look: Attended) -> None:
        return

    def missing(self, pool: Pool) -> str:
        return ""

    def start(self, pool: Pool, template: str, count: int) -> None:
        raise AssertionError("workers of an external pool are not ours to start")

    def stop(self, name: str, within_s: float) -> None:
        raise AssertionError("workers of an external pool are not ours to end")

    def kill(self, name: str, why: str) -> None:
        raise AssertionError("workers of an external pool are not ours to kill")

    def workers(self, pool: str) -> Sequence[Running]:
        return ()

    def pools(self) -> Sequence[str]:
        return ()

    async def close(self, within_s: float) -> None:
        return
