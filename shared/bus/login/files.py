"""The files that say who one is and whom one trusts. They are named once and read for each connection: whoever renews
one need not start anything again. What is wrong with one is said by the name of its setting, never by what is in it.
"""

import re
import ssl
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from shared.bus.login import nkeys
from shared.bus.login.nkeys import BadKey, Key
from shared.bus.nats_py import Error
from shared.errors import NoetlError

MAX_BYTES = 65_536
CREDS, NKEY = "NOETL_NATS_CREDS_FILE", "NOETL_NATS_NKEY_FILE"
CA, CERT, KEY = "NOETL_NATS_CA_FILE", "NOETL_NATS_CERT_FILE", "NOETL_NATS_KEY_FILE"
_JWT = re.compile(r"-----BEGIN NATS USER JWT-----\s+([\w.-]+)\s+------END NATS USER JWT------")
_SEED = re.compile(r"-----BEGIN USER NKEY SEED-----\s+(\w+)\s+------END USER NKEY SEED------")


class BadLogin(NoetlError, Error):
    """One cannot log in with what there is. For nats-py it is an error of the connection: it tries again, and reads
    the files again; whoever connects for the first time ends with it (`faults.py`)."""


class LoginFiles(Struct, frozen=True, kw_only=True):
    """Paths; empty where there is none. `tls_first`: the handshake comes before the server's first word."""

    creds: str = ""
    nkey: str = ""
    ca: str = ""
    cert: str = ""
    key: str = ""
    tls_first: bool = False

    @property
    def signs(self) -> bool:
        return bool(self.creds or self.nkey)

    @property
    def wants_tls(self) -> bool:
        return bool(self.ca or self.cert or self.tls_first)

    def check(self) -> None:
        """Raises BadLogin for a file that cannot be used now."""
        if self.creds:
            read_creds(self.creds)
        if self.nkey:
            read_nkey(self.nkey)
        if self.wants_tls:
            ssl_context(self)


NO_FILES = LoginFiles()


def read_creds(path: str) -> tuple[str, Key]:
    """The JWT of a user and its key."""
    text = _text(CREDS, path)
    jwt, seed = _JWT.search(text), _SEED.search(text)
    if jwt is None or seed is None:
        raise BadLogin(f"{CREDS}: {path} is no credentials file: it has no user JWT, or no seed")
    return jwt[1], _key(CREDS, path, seed[1])


def read_nkey(path: str) -> Key:
    """The first line that is not a comment, as the tools of NATS write seeds."""
    lines = [line.strip() for line in _text(NKEY, path).splitlines()]
    return _key(NKEY, path, next((line for line in lines if line and not line.startswith("#")), ""))


def ssl_context(files: LoginFiles) -> ssl.SSLContext:
    """Without a CA of one's own, those that the system trusts. The name of the server is always checked."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if files.ca else ssl.create_default_context()
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if files.ca:
        _load(CA, files.ca, lambda: made.load_verify_locations(files.ca))
    if files.cert:
        _load(f"{CERT}, {KEY}", f"{files.cert}, {files.key}", lambda: made.load_cert_chain(files.cert, files.key))
    return made


def _load(setting: str, path: str, load: Callable[[], None]) -> None:
    try:
        load()
    except ssl.SSLError as error:
        reason = error.reason or "it is not PEM"
        if reason == "KEY_VALUES_MISMATCH":
            raise BadLogin(f"{setting}: {path}: the key does not belong to the certificate") from None
        raise BadLogin(f"{setting}: cannot use {path}: {reason}") from None
    except OSError as error:
        raise BadLogin(f"{setting}: cannot read {path}: {error.strerror}") from None


def _key(setting: str, path: str, text: str) -> Key:
    try:
        key = nkeys.read_seed(text)
    except BadKey as error:
        raise BadLogin(f"{setting}: {path}: {error}") from None
    if key.kind != "user":
        raise BadLogin(f"{setting}: {path} is the seed of an {key.kind}; a client needs that of a user (SU…)")
    return key


def _text(setting: str, path: str) -> str:
    try:
        if not Path(path).is_file() and Path(path).exists():
            raise BadLogin(f"{setting}: {path} is not a file: it is read again whenever the connection is lost")
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise BadLogin(f"{setting}: {path} is over {MAX_BYTES} bytes")
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadLogin(f"{setting}: cannot read {path}: {getattr(error, 'strerror', 'it is no text')}") from None
