"""A NATS server in operator mode, as small as a test of its clients needs it: one account, its users by signed JWTs."""

import hashlib
import secrets
import time
from base64 import b32encode, urlsafe_b64encode
from pathlib import Path
from typing import Any

import msgspec

from shared.bus.login.nkeys import Key, Kind

NO_LIMITS = {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True, "conn": -1,
             "leaf": -1, "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}


def new_key(kind: Kind = "user") -> Key:
    return Key(kind, secrets.token_bytes(32))


class Operator:
    def __init__(self) -> None:
        self._operator, self._account, self._system = new_key("operator"), new_key("account"), new_key("account")

    @property
    def config(self) -> dict[str, Any]:
        """For a server that is to trust it."""
        accounts = {key.public: self._of_account(key, name) for key, name in (
            (self._account, "NOETL"), (self._system, "SYS"))}
        operator = _signed(self._operator, self._operator, "operator", {
            "type": "operator", "system_account": self._system.public})
        return {"operator": operator, "resolver": "MEMORY", "resolver_preload": accounts}

    def _of_account(self, key: Key, name: str) -> str:
        """The system's account has no JetStream."""
        limits = NO_LIMITS if name != "SYS" else {k: 0 if k.endswith("storage") else v for k, v in NO_LIMITS.items()}
        return _signed(self._operator, key, name, {"type": "account", "limits": limits})

    def write_creds(self, path: Path, name: str, *, seconds: int = 0) -> Key:
        """Of a new user of the account, for so long if it is said."""
        user = new_key()
        claims = {"type": "user", "subs": -1, "data": -1, "payload": -1}
        jwt = _signed(self._account, user, name, claims, int(time.time()) + seconds if seconds else 0)
        text = (
            f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
        )
        fresh = path.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(path)  # as a mounted Secret changes: at once
        return user


def _signed(by: Key, of: Key, name: str, nats: dict[str, Any], expires: int = 0) -> str:
    claims = {"iat": int(time.time()), "iss": by.public, "name": name, "sub": of.public, "nats": {**nats, "version": 2}}
    if expires:
        claims["exp"] = expires
    claims["jti"] = b32encode(hashlib.sha256(msgspec.json.encode(claims)).digest()).decode().rstrip("=")
    text = ".".join(map(_part, ({"typ": "JWT", "alg": "ed25519-nkey"}, claims)))
    return f"{text}.{_encoded(by.sign(text.encode()))}"


def _part(value: object) -> str:
    return _encoded(msgspec.json.encode(value))


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
