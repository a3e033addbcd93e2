"""Which stack a command talks to: a named context, the file `up` writes, or NOETL_* in the environment.

Looked up in this order: `--context NAME|FILE`, NOETL_CONTEXT, NOETL_NATS_URL (with the other settings),
`.noetl/context.json` in the current folder, the context in use (`noetlctl context use`).
"""

import os
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from services.cli.console.exits import CliError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from services.cli.stack.broker_away import Patience
    from shared.bus.ports import Bus
    from shared.runtime.service.settings import Settings

AS_SETTINGS = (
    "nats_creds_file", "nats_nkey_file", "nats_ca_file", "nats_cert_file", "nats_key_file", "nats_tls_first", "role",
    "replicas", "placement", "max_bytes", "retention",
)
DEFAULT_FOLDER = Path(".noetl")
FILE_NAME = "context.json"
PARTITIONS = 4


class Context(Struct, frozen=True):
    """Addresses and users of a running stack. Holds passwords: the file is the owner's alone."""

    nats_url: str
    users: dict[str, str]  # user → password
    postgres_dsn: str = ""  # to read the read model
    partitions: int = PARTITIONS
    pools: tuple[str, ...] = ("default",)
    health: dict[str, str] = {}
    user: str = "admin"
    postgres_admin_dsn: str = ""  # to rebuild it, or remove from it; `postgres_dsn` unless given
    # The others are settings, under their own names.
    nats_creds_file: str = ""
    nats_nkey_file: str = ""
    nats_ca_file: str = ""
    nats_cert_file: str = ""
    nats_key_file: str = ""
    nats_tls_first: bool = False
    role: str = ""
    replicas: int = 1
    placement: tuple[str, ...] = ()
    max_bytes: tuple[str, ...] = ()
    retention: tuple[str, ...] = ()

    def settings(self) -> "Settings":
        """Raises CliError when its keys contradict each other, or cannot be used."""
        from shared.runtime.service import login, provision
        from shared.runtime.service.settings import Settings

        given = {name: getattr(self, name) for name in AS_SETTINGS}
        try:
            settings = msgspec.convert(given, Settings)
        except msgspec.ValidationError as error:
            raise CliError(f"the context cannot be used: {error}") from None
        settings = replace(
            settings,
            nats_url=self.nats_url,
            nats_user=self.user if self.user in self.users or not (self.nats_creds_file or self.nats_nkey_file) else "",
            nats_password=self.users.get(self.user, ""),
            postgres_dsn=self.postgres_dsn,
            postgres_admin_dsn=self.postgres_admin_dsn,
            partitions=self.partitions,
            pools=self.pools,
        )
        if wrong := login.wrong(settings, _key) or provision.wrong(settings) or login.unusable(settings):
            raise CliError(f"the context cannot be used: {wrong}")
        return replace(settings, role=login.of_person(settings))


def _key(setting: str) -> str:
    """A setting as a context names it."""
    return {"nats_user": "user", "nats_password": "the password in users"}.get(setting, setting)


def names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """For a shell to complete: the named contexts, or else files."""
    from click.shell_completion import CompletionItem

    from services.cli.stack import config

    try:
        known = config.load().contexts
    except CliError:
        known = {}
    return [CompletionItem(name) for name in known if name.startswith(incomplete)] or [
        CompletionItem(incomplete, type="file")
    ]


option = click.option(
    "--context",
    "context_file",
    metavar="NAME|FILE",
    type=click.Path(path_type=Path),
    shell_complete=names,
    help="The stack: a named context or a context file (default: NOETL_CONTEXT, NOETL_NATS_URL, .noetl/context.json, "
    "the context in use).",
)


def write(folder: Path, context: Context) -> Path:
    path = folder / FILE_NAME
    write_private(path, context)
    return path


def write_private(path: Path, value: Struct) -> None:
    """Readable by the owner alone."""
    from shared.runtime.service import privacy

    privacy.write_private(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


class Found(NamedTuple):
    """The settings of a stack, the context they came from if they did, and its file if it has one of its own."""

    settings: "Settings"
    context: Context | None = None
    file: Path | None = None

    @property
    def folder(self) -> Path | None:
        """Where the file is, with what belongs to an embedded stack beside it."""
        return self.file.resolve().parent if self.file is not None else None


def find(context_file: Path | None, environ: Mapping[str, str] = os.environ) -> "Settings":
    """Settings of the stack to talk to."""
    return locate(context_file, environ).settings


def locate(context_file: Path | None, environ: Mapping[str, str] = os.environ) -> Found:
    from services.cli.stack import config
    from shared.runtime.service import login
    from shared.runtime.service.settings import read_settings

    named = str(context_file) if context_file else environ.get("NOETL_CONTEXT", "")
    if named:
        return _named(named, environ)
    if environ.get("NOETL_NATS_URL") or environ.get("NOETL_NATS_URL_FILE"):
        settings = read_settings(environ)
        return Found(replace(settings, role=login.of_person(settings)))
    default = DEFAULT_FOLDER / FILE_NAME
    if default.exists():
        return _in_file(default)
    if (current := config.load(environ).in_use) is not None:
        return Found(current.settings(), current)
    raise CliError(
        "no stack found: start one with `noetlctl up`, name one with `noetlctl context add`, or set NOETL_NATS_URL"
    )


class Used(NamedTuple):
    """What commands go to without --context. `name` is that of a context, a file, or the variable that says it."""

    name: str
    found: Found


def used(environ: Mapping[str, str] = os.environ) -> Used:
    from services.cli.stack import config

    found = locate(None, environ)
    if named := environ.get("NOETL_CONTEXT", ""):
        return Used(named, found)
    if found.context is None:
        return Used("NOETL_NATS_URL", found)
    return Used(str(found.file) if found.file is not None else config.load(environ).current, found)


def _named(name: str, environ: Mapping[str, str]) -> Found:
    """A name goes before a file of the same name; `./NAME` is the file."""
    from services.cli.console import exits
    from services.cli.stack import config

    if config.NAME.fullmatch(name):
        known = config.load(environ).contexts
        if name in known:
            return Found(known[name].settings(), known[name])
        if not Path(name).exists():
            what = f"no context {name!r} and no such file (`noetlctl context list` shows the contexts)"
            raise CliError(what, exits.NOT_FOUND)
    return _in_file(Path(name))


def _in_file(path: Path) -> Found:
    context = read(path)
    return Found(context.settings(), context, path)


def read(path: Path) -> Context:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Context)
    except OSError as error:
        raise CliError(f"cannot read {path}: {error.strerror} (is `noetlctl up` running?)") from None
    except msgspec.MsgspecError as error:
        raise CliError(f"{path} is not a context file: {error} (`noetlctl up` writes one)") from None


def writing(settings: "Settings") -> str:
    """The DSN of whoever may change the read model."""
    return settings.postgres_admin_dsn or settings.postgres_dsn


def inbox(settings: "Settings") -> str:
    """A subject of its own for an answer; a user may read none but its own."""
    from shared.runtime.service import login

    return f"{login.inbox(settings)}.{uuid.uuid4().hex}"


@asynccontextmanager
async def connected(settings: "Settings", patience: "Patience | None" = None) -> "AsyncIterator[Bus]":
    """The bus of a running stack, with one clear error when nobody answers; with patience it is waited for, also when
    it goes away meanwhile."""
    from services.cli.stack import broker_away

    bus = await broker_away.connected(settings, patience)
    try:
        async with broker_away.told(bus, settings.nats_url, patience):
            yield bus
    finally:
        await bus.close()
