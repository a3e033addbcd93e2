"""Settings: `NOETL_*` in the environment, read once at the entry point and passed down."""

import os
import socket
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from shared.bus.topology import PARTITIONS
from shared.errors import NoetlError
from shared.tools.registry import specs

Count = Annotated[int, Meta(ge=1, le=4096)]
Port = Annotated[int, Meta(ge=0, le=65535)]
Level = Literal["debug", "info", "warning", "error"]
Seconds = Annotated[float, Meta(gt=0, le=3600)]


class Settings(Struct, frozen=True, kw_only=True):
    """One field per variable: `nats_url` is NOETL_NATS_URL. Lists are comma-separated."""

    nats_url: str = "nats://127.0.0.1:4222"
    nats_user: str = ""
    nats_password: str = ""
    postgres_dsn: str = ""
    partitions: Count = PARTITIONS
    pools: tuple[str, ...] = ("default",)
    pool: str = "default"
    slots: Count = 64
    provides: tuple[str, ...] = ()  # capabilities a worker says it has
    python_processes: Count = 2
    duckdb_extensions: str = ""  # DuckDB's own folder
    tools_disabled: tuple[str, ...] = ()  # kinds a worker refuses
    scripts: str = ""  # folder of script files; where the worker was started unless given
    instance: str = ""
    health_host: str = "0.0.0.0"
    health_port: Port = 0  # 0: no health endpoint
    drain_s: Seconds = 20.0
    passwords: str = ""  # file with the passwords of worker users, for workers the pools service starts
    logs: str = ""  # folder of the log files of those workers
    log_level: Level = "info"


_LISTS = ("pools", "tools_disabled", "provides")


class BadSettings(NoetlError):
    """A NOETL_* variable that cannot be used; the message names it."""


def read_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    raw: dict[str, object] = {}
    for field in msgspec.structs.fields(Settings):
        value = environ.get("NOETL_" + field.name.upper())
        if value:
            raw[field.name] = value.split(",") if field.name in _LISTS else value
    raw.setdefault("instance", f"{socket.gethostname()}-{os.getpid()}")
    try:
        settings = msgspec.convert(raw, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise BadSettings(f"bad environment: {error} (variables are NOETL_<FIELD>)") from None
    for kind in settings.tools_disabled:
        if kind not in specs():  # a kind that is misspelt would stay allowed
            raise BadSettings(f"bad environment: NOETL_TOOLS_DISABLED: there is no tool kind {kind!r}")
    return settings
