"""Keys are written and read as NATS does it."""

from base64 import b32decode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from shared.bus.login.nkeys import BadKey, Key, Kind, read_seed

# From the documentation of nats-server.
SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
PUBLIC = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


def test_a_seed_of_nats_gives_its_public_key_and_itself_again() -> None:
    key = read_seed(f" {SEED}\n")
    assert (key.kind, key.public, key.seed) == ("user", PUBLIC, SEED)


@pytest.mark.parametrize(("kind", "letter"), [("user", "U"), ("account", "A"), ("operator", "O")])
def test_the_first_letters_say_what_it_is(kind: Kind, letter: str) -> None:
    key = Key(kind, bytes(range(32)))
    assert (key.seed[:2], key.public[0], read_seed(key.seed)) == (f"S{letter}", letter, key)


def test_whoever_has_the_public_key_can_check_a_signature() -> None:
    key = read_seed(SEED)
    raw = b32decode(key.public)[1:-2]
    Ed25519PublicKey.from_public_bytes(raw).verify(key.sign(b"nonce"), b"nonce")


@pytest.mark.parametrize("text", ["", "S", SEED[:-1], SEED[:-1] + "Z", SEED.lower(), PUBLIC, "ä" * 58, SEED + SEED])
def test_what_is_no_seed_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(BadKey) as refused:
        read_seed(text)
    assert len(text) < 2 or text not in str(refused.value)


def test_a_key_does_not_show_its_seed() -> None:
    shown = repr(read_seed(SEED))
    assert PUBLIC in shown
    assert SEED not in shown
