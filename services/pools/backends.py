"""Who runs the workers of a pool. `process` starts children of this service; with `external` someone else does."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from shared.dsl.documents.pools import Pool
from shared.runtime.stores.pools import Crash, WorkerStatus


class Running(Struct, frozen=True):
    """A worker that a backend looks after. `crashes` are its latest."""

    status: WorkerStatus
    template: str
    crashes: tuple[Crash, ...] = ()


class Backend(Protocol):
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
