"""Tokens as NATS signs them: who signed can be checked, and what says the same is not signed again."""

from base64 import b32decode, urlsafe_b64decode

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from shared.bus.login.nkeys import read_seed
from shared.runtime.broker_auth.keyring import new_seed
from shared.runtime.broker_auth.tokens import claims_of, credentials, renewed, signed

SEED = new_seed("account")
PUBLIC = read_seed(SEED).public
CLAIMS = {"name": "etl", "sub": PUBLIC, "nats": {"type": "account", "version": 2}}


def test_a_token_is_signed_over_its_header_and_its_claims() -> None:
    text, _, signature = signed({**CLAIMS, "iat": 5}, SEED).rpartition(".")
    raw = b32decode(PUBLIC + "=" * (-len(PUBLIC) % 8))[1:33]
    Ed25519PublicKey.from_public_bytes(raw).verify(urlsafe_b64decode(signature + "=="), text.encode())
    head = text.split(".")[0]
    header = msgspec.json.decode(urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    assert header == {"typ": "JWT", "alg": "ed25519-nkey"}


def test_it_names_its_signer_and_has_an_id_of_its_own() -> None:
    found = claims_of(signed({**CLAIMS, "iat": 5}, SEED))
    assert (found["iss"], found["sub"], found["iat"]) == (PUBLIC, PUBLIC, 5)
    assert found["jti"] != claims_of(signed({**CLAIMS, "iat": 6}, SEED))["jti"]


def test_what_says_the_same_is_not_signed_again() -> None:
    first = renewed("", CLAIMS, SEED, PUBLIC, 100)
    assert renewed(first, CLAIMS, SEED, PUBLIC, 200) == first
    other = renewed(first, {**CLAIMS, "name": "gpu"}, SEED, PUBLIC, 200)
    assert (claims_of(other)["name"], claims_of(other)["iat"]) == ("gpu", 200)
    stranger = new_seed("account")
    assert claims_of(renewed(first, CLAIMS, stranger, read_seed(stranger).public, 200))["iat"] == 200


def test_a_later_token_is_issued_later_whatever_the_clock_says() -> None:
    """Of two a server keeps the one that was issued later."""
    first = renewed("", CLAIMS, SEED, PUBLIC, 100)
    assert claims_of(renewed(first, {**CLAIMS, "name": "gpu"}, SEED, PUBLIC, 50))["iat"] == 101


def test_credentials_are_the_file_that_clients_read() -> None:
    lines = credentials("a.b.c", "SUX").splitlines()
    assert lines == ["-----BEGIN NATS USER JWT-----", "a.b.c", "------END NATS USER JWT------", "",
                     "-----BEGIN USER NKEY SEED-----", "SUX", "------END USER NKEY SEED------"]
