"""Which stack a command talks to: the file `up` writes, or NOETL_* in the environment.

Looked up in this order: `--context FILE`, NOETL_CONTEXT, NOETL_NATS_URL (with NOETL_NATS_USER and
NOETL_NATS_PASSWORD), `.noetl/context.json` in the current folder.
"""

import os
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from services.cli.exits import CliError
from shared.bus.ports import Bus
from shared.runtime.settings import Settings, read_settings

DEFAULT_FOLDER = Path(".noetl")
FILE_NAME = "context.json"


class Context(Struct, frozen=True):
    """Addresses and users of a running stack. Holds passwords: the file is the owner's alone."""

    nats_url: str
    users: dict[str, str]  # user → password
    postgres_dsn: str = ""
    partitions: int = 4
    pools: tuple[str, ...] = ("default",)
    health: dict[str, str] = {}

    def settings(self) -> Settings:
        return Settings(
            nats_url=self.nats_url,
            nats_user="admin",
            nats_password=self.users["admin"],
            postgres_dsn=self.postgres_dsn,
            partitions=self.partitions,
            pools=self.pools,
        )


option = click.option(
    "--context",
    "context_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Context file of the stack (default: NOETL_CONTEXT, NOETL_NATS_URL, .noetl/context.json).",
)


def write(folder: Path, context: Context) -> Path:
    """Readable by the owner alone, and never half written."""
    path, fresh = folder / FILE_NAME, folder / (FILE_NAME + ".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(context), indent=2) + b"\n")
    fresh.replace(path)
    return path


def find(context_file: Path | None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings of the stack to talk to."""
    named = context_file or (Path(environ["NOETL_CONTEXT"]) if environ.get("NOETL_CONTEXT") else None)
    if named is not None:
        return _read(named).settings()
    if environ.get("NOETL_NATS_URL"):
        return read_settings(environ)
    default = DEFAULT_FOLDER / FILE_NAME
    if default.exists():
        return _read(default).settings()
    raise CliError("no stack found: start one with `noetlctl up`, or set NOETL_NATS_URL or --context FILE")


def _read(path: Path) -> Context:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Context)
    except OSError as error:
        raise CliError(f"cannot read {path}: {error.strerror} (is `noetlctl up` running?)") from None
    except msgspec.MsgspecError as error:
        raise CliError(f"{path} is not a context file: {error} (`noetlctl up` writes one)") from None


def inbox(settings: Settings) -> str:
    """A subject of its own for an answer; a user may read none but its own."""
    from shared.runtime.nats_config import inbox_prefix

    return f"{inbox_prefix(settings.nats_user) if settings.nats_user else '_INBOX'}.{uuid.uuid4().hex}"


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[Bus]:
    """The bus of a running stack, with one clear error when nobody answers."""
    from shared.errors import Unavailable
    from shared.runtime.main import connect

    try:
        bus = await connect("cli", settings)
    except Unavailable as error:
        raise CliError(f"no answer from {settings.nats_url}: {error} (is `noetlctl up` running?)") from None
    try:
        yield bus
    finally:
        await bus.close()
