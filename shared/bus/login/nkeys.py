"""Keys as NATS writes them: base32 of what kind of key it is, 32 bytes and a checksum.

A seed begins with S and the letter of its kind (`SU…` of a user), a public key with that letter. Only whoever has the
seed can sign; a server that knows the public key alone can check that, and holds nothing worth stealing.
"""

import binascii
from base64 import b32decode, b32encode
from typing import Literal

from msgspec import Struct

from shared.errors import NoetlError

Kind = Literal["user", "account", "operator"]
_BYTES: dict[Kind, int] = {"user": 20 << 3, "account": 0, "operator": 14 << 3}
_SEED = 18 << 3
_RAW = 32


class BadKey(NoetlError):
    """Text that is not a key. The message never shows it: it may be a seed with a typing error."""


class Key(Struct, frozen=True):
    """A private key. Its text is `seed`, what others may know of it is `public`."""

    kind: Kind
    raw: bytes

    def __repr__(self) -> str:
        return f"Key({self.kind}, {self.public})"  # never the private part

    @property
    def seed(self) -> str:
        code = _BYTES[self.kind]
        return _text(bytes([_SEED | code >> 5, (code & 31) << 3]) + self.raw)

    @property
    def public(self) -> str:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return public_text(self.kind, Ed25519PrivateKey.from_private_bytes(self.raw).public_key().public_bytes_raw())

    def sign(self, data: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.raw).sign(data)


def public_text(kind: Kind, raw: bytes) -> str:
    return _text(bytes([_BYTES[kind]]) + raw)


def read_seed(text: str) -> Key:
    data = _data(text.strip(), 2 + _RAW)
    code = (data[0] & 7) << 5 | data[1] >> 3
    kind = next((kind for kind, byte in _BYTES.items() if byte == code), None)
    if data[0] & 0xF8 != _SEED or kind is None:
        raise BadKey("a key, and not the seed of a user, an account or an operator (such as SU…)")
    return Key(kind, data[2:])


def _text(data: bytes) -> str:
    return b32encode(data + _checksum(data)).decode().rstrip("=")


def _data(text: str, length: int) -> bytes:
    try:
        data = b32decode(text + "=" * (-len(text) % 8))
    except (ValueError, binascii.Error):
        raise BadKey("not a key: a seed is one line such as SU…") from None
    body = data[:-2]
    if len(body) != length or _text(body) != text:  # also one that differs in bits that mean nothing
        raise BadKey("not a whole key: its length or its checksum is wrong")
    return body


def _checksum(data: bytes) -> bytes:
    return binascii.crc_hqx(data, 0).to_bytes(2, "little")
