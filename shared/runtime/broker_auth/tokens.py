"""JSON Web Tokens as NATS signs them: what an operator says of accounts, and an account of its users and of who may
import from it. Each names its signer, so that a token can be checked with nothing but itself; whom to trust is the
server's to say."""

from base64 import b32encode, urlsafe_b64encode
from hashlib import sha256
from typing import Any

import msgspec

from shared.bus.login import jwt, nkeys

_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
_encode = msgspec.json.Encoder(order="sorted").encode
Claims = dict[str, Any]


def signed(claims: Claims, seed: str) -> str:
    """`claims` without who signs and without an id: both are added."""
    key = nkeys.read_seed(seed)
    named = {**claims, "iss": key.public}
    named["jti"] = b32encode(sha256(_encode(named)).digest()).decode().rstrip("=")
    text = f"{_part(_encode(_HEADER))}.{_part(_encode(named))}"
    return f"{text}.{_part(key.sign(text.encode()))}"


def claims_of(token: str) -> Claims:
    """What one of our own says; nothing is checked."""
    return msgspec.json.decode(jwt.body(token), type=Claims)


def renewed(old: str, claims: Claims, seed: str, by: str, now: int) -> str:
    """The old one if it says the same and is by the same, whose public key is `by`. Of two a server keeps the one that
    was issued later."""
    if old:
        known = claims_of(old)
        if known == {**claims, "iss": by, "iat": known["iat"], "jti": known["jti"]}:
            return old
        now = max(now, known["iat"] + 1)
    return signed({**claims, "iat": now}, seed)


def credentials(token: str, seed: str) -> str:
    """The file that clients of NATS take as credentials: the token of a user, and its seed."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )


def _part(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
