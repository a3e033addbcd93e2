"""Secrets on their way to a service: handed over by a socket or read from a file, not by the environment, which every
process of the same user can look at, and every child inherits.

A socket, because a pipe could be opened again by whoever finds it in /proc.
"""

import socket
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from shared.errors import NoetlError

SECRETS = ("nats_password", "postgres_dsn", "postgres_admin_dsn")
URL = "nats_url"  # one only when it has a password in it
DESCRIPTOR = "NOETL_SECRETS_FD"
MAX_BYTES = 65_536  # of what is handed over or in a file


class BadSecret(NoetlError):
    """Where a secret should be is none that can be used; the message names the place, never what is there."""


def variable(field: str) -> str:
    return f"NOETL_{field.upper()}"


def is_secret(field: str, value: str) -> bool:
    return field in SECRETS or (field == URL and "@" in value)


@contextmanager
def handing(secrets: Mapping[str, str]) -> Iterator[int]:
    """A descriptor for the process to be started: what it reads from it is gone."""
    data = msgspec.json.encode(dict(secrets))
    assert len(data) <= MAX_BYTES, "a socket takes so much at once"
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(data)
        yield theirs.fileno()


def taken(environ: Mapping[str, str]) -> dict[str, str]:
    """What was handed over, once."""
    number = environ.get(DESCRIPTOR, "")
    if not number:
        return {}
    try:
        with socket.socket(fileno=int(number)) as channel:
            data = b"".join(iter(lambda: channel.recv(MAX_BYTES), b""))
        return msgspec.json.decode(data, type=dict[str, str])
    except (OSError, ValueError, msgspec.MsgspecError):
        raise BadSecret(f"{DESCRIPTOR}: descriptor {number[:20]} has no secrets") from None


def read(field: str, environ: Mapping[str, str]) -> str:
    """From its variable, or from the file that `NOETL_<FIELD>_FILE` names."""
    name = variable(field)
    plain, place = environ.get(name, ""), environ.get(f"{name}_FILE", "")
    if not place:
        return plain
    if plain:
        raise BadSecret(f"{name} and {name}_FILE are both set: which one?")
    try:
        with Path(place).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise BadSecret(f"{name}_FILE: {place} is over {MAX_BYTES} bytes")
        return data.decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSecret(f"{name}_FILE: cannot read {place}: {getattr(error, 'strerror', 'it is no text')}") from None


def forget(environ: MutableMapping[str, str]) -> None:
    """What was read is not for the processes this one starts."""
    for name in [name for name, value in environ.items() if _is_telling(name, value)]:
        del environ[name]


def without(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if not _is_telling(name, value)}


def _is_telling(name: str, value: str) -> bool:
    if name == DESCRIPTOR:
        return True
    field = name.removeprefix("NOETL_").removesuffix("_FILE").lower()
    return name.startswith("NOETL_") and is_secret(field, value)
