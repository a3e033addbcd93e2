"""Opening databases of DuckDB. A file that is open has one set of settings, secrets and attached databases in a
process: calls share it only if they bring the same settings and nothing else."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from shared.tools.duckdb.guard import MEMORY

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LOOK_EVERY_S = 0.05  # whether a call that waits for a file was stopped

Prepare = Callable[["DuckDBPyConnection"], None]
_DOOR = threading.Condition()  # also: a file that is opened while its last connection closes is refused
_OPEN: dict[str, "_Use"] = {}


class _Use(Struct):
    settings: tuple[str, ...] | None  # None: one call has it alone
    calls: int


class Session:
    """One connection. `prepare` brings the settings and locks them; `shared` names what it brings if that is all."""

    def __init__(self, lib: Any, database: str, prepare: Prepare, shared: tuple[str, ...] | None = None) -> None:
        self._lib = lib
        self._database = database
        self._prepare = prepare
        self._shared = shared
        self._connection: DuckDBPyConnection | None = None

    def open(self, stopped: Callable[[], bool]) -> "DuckDBPyConnection":
        with _DOOR if self._database != MEMORY else contextlib.nullcontext():
            first = self._enter(stopped)
            try:
                self._connection = self._lib.connect(self._database)
                if first and self._shared is not None:
                    self._prepare(self._connection)
            except BaseException:
                self._leave()
                raise
        if self._shared is None:
            with self._closed_on_error():
                self._prepare(self._connection)
        return self._connection

    def close(self) -> None:
        with _DOOR if self._database != MEMORY else contextlib.nullcontext():
            self._leave()

    def _enter(self, stopped: Callable[[], bool]) -> bool:
        """Whether it is the first one; waits for those that have the file in another way."""
        if self._database == MEMORY:
            return True
        while (use := _OPEN.get(self._database)) and (self._shared is None or use.settings != self._shared):
            if stopped():
                raise self._lib.InterruptException("stopped")
            _DOOR.wait(LOOK_EVERY_S)
        if use is None:
            _OPEN[self._database] = _Use(self._shared, 1)
            return True
        use.calls += 1
        return False

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        try:
            if connection is not None:
                connection.close()
        finally:
            if use := _OPEN.get(self._database):
                use.calls -= 1
                if not use.calls:
                    del _OPEN[self._database]
                _DOOR.notify_all()

    @contextlib.contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise
