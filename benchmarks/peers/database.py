"""A PostgreSQL for a peer: the same program as under our read model, at its own priority and with a password for
nobody: its socket is in a folder that only we can enter."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from shared.runtime.embedded import postgres
from shared.runtime.embedded.postgres_programs import Programs

OPTIONS = {"shared_buffers": "256MB", "max_connections": "200", "max_wal_size": "4GB", "listen_addresses": ""}


class Database:
    def __init__(self, folder: Path) -> None:
        self.name, self._folder = "postgres", folder
        self.pid = postgres.pid_of(folder) or 0

    def url(self, scheme: str, name: str) -> str:
        return f"{scheme}://postgres@/{name}?host={quote(str(self._folder))}"

    def check(self) -> None:
        if postgres.pid_of(self._folder) is None:
            raise SystemExit("PostgreSQL ended: " + (self._folder / "log").read_text()[-2000:])


@contextmanager
def database(folder: Path, durable: bool) -> Iterator[Database]:
    """Without `durable` a commit does not wait for its fsync (`synchronous_commit`)."""
    folder.mkdir()
    programs = Programs(folder)
    programs.own(folder)
    os.chmod(folder, 0o700)
    programs.run("initdb", "-D", "{data}", "-U", "postgres", "--encoding=utf8", "--auth=trust")
    settings = {**OPTIONS, "synchronous_commit": "on" if durable else "off"}
    options = " ".join(f"-c {name}={value}" for name, value in settings.items()) + " -k {data}"
    programs.run("pg_ctl", "-w", "-o", options, "-l", "{data}/log", "-D", "{data}", "start")
    try:
        yield Database(folder)
    finally:
        postgres.stop(folder)
