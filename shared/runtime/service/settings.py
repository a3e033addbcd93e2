"""Settings: `NOETL_*` in the environment, read once at the entry point and passed down. Secrets may come from files."""

import os
import re
import secrets
import socket
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from shared.bus.topology import PARTITIONS
from shared.errors import NoetlError
from shared.events.bounds import WORKER
from shared.runtime.service import login, provision
from shared.runtime.service import secrets as service_secrets

Count = Annotated[int, Meta(ge=1, le=4096)]
Replicas = Annotated[int, Meta(ge=1, le=5)]
Wal = Annotated[int, Meta(ge=64, le=1_048_576)]
Port = Annotated[int, Meta(ge=0, le=65535)]
Level = Literal["debug", "info", "warning", "error"]
Skew = Annotated[float, Meta(gt=0, le=86_400)]
Seconds = Annotated[float, Meta(gt=0, le=3600)]
Auth = Literal["accounts", "jwt", "shared"]
Role = Literal["", "router", "scheduler", "projector", "pools", "worker", "admin", "client", "gateway"]


class Settings(Struct, frozen=True, kw_only=True):
    """One field per variable: `nats_url` is NOETL_NATS_URL. Lists are comma-separated."""

    nats_url: str = "nats://127.0.0.1:4222"
    nats_user: str = ""
    nats_password: str = ""
    nats_creds_file: str = ""  # in place of a user and a password: a JWT and a seed
    nats_nkey_file: str = ""  # or a seed alone
    nats_ca_file: str = ""  # who has signed the server's certificate
    nats_cert_file: str = ""  # for a server that wants one of its clients
    nats_key_file: str = ""
    nats_tls_first: bool = False  # the server has `handshake_first`
    broker_auth: Auth = "accounts"  # how the broker is told who may do what (`noetlctl admin nats-auth`)
    role: Role = ""  # whose inboxes are ours; services know theirs
    postgres_dsn: str = ""
    postgres_admin_dsn: str = ""  # for noetlctl where it writes in the read model; postgres_dsn unless given
    postgres_wal_mb: Wal = 256  # what the embedded PostgreSQL may keep of its write-ahead log
    partitions: Count = PARTITIONS
    replicas: Replicas = 1  # of every stream, consumer and bucket that is made
    placement: tuple[str, ...] = ()  # tags of the servers they are made on
    max_bytes: tuple[str, ...] = ()  # of streams, such as results=20GiB; never of events
    retention: tuple[str, ...] = ()  # such as results=30d, where `noetlctl admin retention` has said nothing
    pools: tuple[str, ...] = ("default",)
    pool: str = "default"
    slots: Count = 64
    provides: tuple[str, ...] = ()  # capabilities a worker says it has
    python_processes: Count = 2
    duckdb_extensions: str = ""  # DuckDB's own folder
    duckdb_files: tuple[str, ...] = ()  # folders and addresses that SQL on DuckDB may use
    tools_disabled: tuple[str, ...] = ()  # kinds a worker refuses
    scripts: str = ""  # folder of script files; none unless given
    quantum_stand_ins: tuple[str, ...] = ()  # quantum providers for which the simulator stands in
    instance: str = ""
    health_host: str = "0.0.0.0"
    health_port: Port = 0  # 0: no health endpoint
    drain_s: Seconds = 20.0
    max_skew_s: Skew = 5.0  # how far this machine's clock may be from the broker's when a service starts
    passwords: str = ""  # file with the passwords of worker users, for workers the pools service starts
    logs: str = ""  # folder of the log files of those workers
    targets: str = ""  # folder in which it says where they answer /metrics; they do not unless given
    kube_release: str = ""  # a pool's Deployment is <release>-worker-<pool>; none unless given
    kube_create: bool = False  # the pools service makes and deletes Deployments of pools that nobody declared
    kube_template: str = ""  # file it makes them of
    log_level: Level = "info"


MAX_HOST = 100
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_LISTS = (
    "pools", "tools_disabled", "provides", "duckdb_files", "quantum_stand_ins", "placement", "max_bytes", "retention",
)


class BadSettings(NoetlError):
    """A NOETL_* variable that cannot be used; the message names it."""


def read_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    raw: dict[str, object] = {}
    try:
        given = service_secrets.taken(environ)
        values = {name: given.get(name) or _value(name, environ) for name in Settings.__struct_fields__}
    except service_secrets.BadSecret as error:
        raise BadSettings(f"bad environment: {error}") from None
    for field in msgspec.structs.fields(Settings):
        value = values[field.name]
        if value:
            raw[field.name] = value.split(",") if field.name in _LISTS else value
    raw.setdefault("instance", _own_name())
    try:
        settings = msgspec.convert(raw, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise BadSettings(f"bad environment: {error} (variables are NOETL_<FIELD>)") from None
    if not WORKER.fullmatch(settings.instance):  # it is part of keys and subjects
        raise BadSettings("bad environment: NOETL_INSTANCE may hold letters, digits, _ and -, at most 128")
    if wrong := login.wrong(settings) or provision.wrong(settings) or login.unusable(settings):
        raise BadSettings(f"bad environment: {wrong}")
    if settings.tools_disabled:
        _check_kinds(settings.tools_disabled)
    return settings


def _check_kinds(kinds: tuple[str, ...]) -> None:
    """A kind that is misspelt would stay allowed."""
    from shared.tools.registry import specs  # all tools: a command that needs none of them starts faster

    for kind in kinds:
        if kind not in specs():
            raise BadSettings(f"bad environment: NOETL_TOOLS_DISABLED: there is no tool kind {kind!r}")


def _own_name() -> str:
    """Of this process alone: in containers the host's name and the pid are easily those of others too."""
    host = _NOT_IN_NAMES.sub("-", socket.gethostname())[:MAX_HOST]
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"


def take_settings() -> Settings:
    """For a service: its secrets do not stay in the environment."""
    try:
        return read_settings()
    finally:
        service_secrets.forget(os.environ)


def _value(field: str, environ: Mapping[str, str]) -> str:
    if field in (*service_secrets.SECRETS, service_secrets.URL):
        return service_secrets.read(field, environ)
    return environ.get(service_secrets.variable(field), "")


def passed_on(settings: Settings) -> tuple[dict[str, str], dict[str, str]]:
    """The settings as a child process reads them: variables, and what is handed over instead."""
    values = {name: getattr(settings, name) for name in settings.__struct_fields__}
    texts = {name: ",".join(value) if isinstance(value, tuple) else str(value) for name, value in values.items()}
    handed = {name: text for name, text in texts.items() if text and service_secrets.is_secret(name, text)}
    return {service_secrets.variable(name): text for name, text in texts.items() if name not in handed}, handed
