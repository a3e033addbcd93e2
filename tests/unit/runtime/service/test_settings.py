"""Settings come from NOETL_* alone, are typed, and a bad one is named."""

import os
from pathlib import Path

import pytest

from shared.bus import topology
from shared.bus.login.nkeys import Key
from shared.runtime.service import login, provision
from shared.runtime.service.main import in_role
from shared.runtime.service.secrets import MAX_BYTES
from shared.runtime.service.settings import BadSettings, read_settings, take_settings


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = read_settings({})
    assert settings.nats_url == "nats://127.0.0.1:4222"
    assert settings.pools == ("default",)
    assert settings.instance


def test_the_name_that_a_process_makes_for_itself_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers may have one host name, and every one of them a process 1."""
    monkeypatch.setattr("os.getpid", lambda: 1)
    monkeypatch.setattr("socket.gethostname", lambda: "h" * 300)
    assert len({read_settings({}).instance for _ in range(100)}) == 100


def test_values_are_converted_and_lists_split_at_commas() -> None:
    settings = read_settings({"NOETL_SLOTS": "4", "NOETL_POOLS": "a,b", "NOETL_DRAIN_S": "1.5"})
    assert (settings.slots, settings.pools, settings.drain_s) == (4, ("a", "b"), 1.5)


@pytest.mark.parametrize(
    ("name", "value"),
    [("slots", "many"), ("slots", "0"), ("health_port", "65536"), ("drain_s", "0"), ("log_level", "loud"),
     ("instance", "a.b")],
)
def test_a_value_that_cannot_be_used_is_named(name: str, value: str) -> None:
    with pytest.raises(BadSettings, match=f"(?i){name}"):
        read_settings({"NOETL_" + name.upper(): value})


@pytest.mark.parametrize("field", ["nats_url", "nats_password", "postgres_dsn", "postgres_admin_dsn"])
def test_a_secret_may_be_in_a_file(field: str, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("nats://word\n")
    settings = read_settings({f"NOETL_{field.upper()}_FILE": str(file), "NOETL_NATS_USER": "someone"})
    assert getattr(settings, field) == "nats://word", "the end of the line is not a part of it"


def test_a_file_that_cannot_be_used_is_named_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    bad = ((None, "No such file"), (b"\xff\xfe", "no text"), (b"x" * (MAX_BYTES + 1), "over 65536 bytes"))
    for content, why in bad:
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(BadSettings, match=f"NOETL_NATS_PASSWORD_FILE: .*{why}"):
            read_settings({"NOETL_NATS_PASSWORD_FILE": str(file)})


CREDS, NKEY = {"NATS_CREDS_FILE": "/c"}, {"NATS_NKEY_FILE": "/n"}
USER, PASSWORD = {"NATS_USER": "u"}, {"NATS_PASSWORD": "p"}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({**CREDS, **NKEY}, ("CREDS_FILE", "NKEY_FILE")),
        ({**CREDS, **USER, **PASSWORD}, ("CREDS_FILE", "USER")),
        ({**NKEY, **USER}, ("NKEY_FILE", "USER")),
        ({**CREDS, **PASSWORD}, ("CREDS_FILE", "PASSWORD")),
        ({**NKEY, "NATS_URL": "nats://u:p@h:1"}, ("NKEY_FILE", "URL")),
        (PASSWORD, ("PASSWORD", "USER")),
        ({"NATS_CERT_FILE": "/c"}, ("CERT_FILE", "KEY_FILE")),
        ({"NATS_KEY_FILE": "/k"}, ("KEY_FILE", "CERT_FILE")),
    ],
)
def test_two_settings_that_contradict_each_other_are_both_named(
    given: dict[str, str], named: tuple[str, str]
) -> None:
    with pytest.raises(BadSettings) as refused:
        read_settings({f"NOETL_{name}": value for name, value in given.items()})
    assert all(f"NOETL_NATS_{name}" in str(refused.value) for name in named)


def test_a_password_may_belong_to_the_user_in_the_address() -> None:
    assert read_settings({"NOETL_NATS_URL": "nats://u@h:1", "NOETL_NATS_PASSWORD": "p"}).nats_password == "p"


@pytest.mark.parametrize("url", ["http://h:1", "nats://", "h:4222", "nats://h:1,", "nats://h:x", "nats://a:1,ftp://b:2"])
def test_an_address_that_is_none_is_named(url: str) -> None:
    with pytest.raises(BadSettings, match="NOETL_NATS_URL"):
        read_settings({"NOETL_NATS_URL": url})


def test_several_addresses_are_separated_by_commas() -> None:
    url = "nats://a:4222, tls://b:4222"
    assert read_settings({"NOETL_NATS_URL": url}).nats_url == url


def test_a_password_in_an_address_that_cannot_be_used_is_not_shown() -> None:
    with pytest.raises(BadSettings) as refused:
        read_settings({"NOETL_NATS_URL": "natz://u:hidden@h:1"})
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("NATS_CREDS_FILE", None, "No such file"),
        ("NATS_CREDS_FILE", "SUAM-not-whole", "no credentials file"),
        ("NATS_NKEY_FILE", "SUAMNOTAKEY", "not a key|not a whole key"),
        ("NATS_NKEY_FILE", Key("account", b"a" * 32).seed, "seed of an account"),
        ("NATS_NKEY_FILE", Key("user", b"a" * 32).public, "not a whole key|not the seed"),
        ("NATS_CA_FILE", "no certificate", "cannot use"),
    ],
)
def test_a_file_to_log_in_with_is_looked_at_before_the_start(
    name: str, content: str | None, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    if content is not None:
        file.write_text(content)
    with pytest.raises(BadSettings, match=f"NOETL_{name}: .*({why})") as refused:
        read_settings({f"NOETL_{name}": str(file)})
    assert content is None or content not in str(refused.value)


def test_a_seed_may_have_comments_around_it(tmp_path: Path) -> None:
    file = tmp_path / "seed"
    file.write_text(f"# the worker's\n\n{Key('user', b'a' * 32).seed}\n")
    assert read_settings({"NOETL_NATS_NKEY_FILE": str(file)}).nats_nkey_file == str(file)


@pytest.mark.parametrize(
    ("given", "role", "inbox"),
    [
        ({"NATS_USER": "shared"}, "router", "_INBOX_router"),
        ({"NATS_USER": "shared", "POOL": "gpu"}, "worker", "_INBOX_worker_gpu"),
        ({}, "projector", "_INBOX_projector"),
    ],
)
def test_whose_inboxes_a_service_hears_follows_from_its_role(given: dict[str, str], role: str, inbox: str) -> None:
    settings = in_role(role, read_settings({f"NOETL_{name}": value for name, value in given.items()}))
    assert login.inbox(settings) == inbox


def test_a_service_has_no_role_but_its_own() -> None:
    with pytest.raises(BadSettings, match=r"NOETL_ROLE is worker.*router"):
        in_role("router", read_settings({"NOETL_ROLE": "worker"}))


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ("results=20GiB,commands=64M", {topology.RESULTS: 20 << 30, topology.COMMANDS: 64 << 20}),
        ("1048576", dict.fromkeys(topology.LIMITED.values(), 1 << 20)),
        ("2048K,ends=5M", {**dict.fromkeys(topology.LIMITED.values(), 2 << 20), topology.ENDS: 5 << 20}),
    ],
)
def test_sizes_are_of_single_streams_or_of_each(given: str, sizes: dict[str, int]) -> None:
    assert provision.provision(read_settings({"NOETL_MAX_BYTES": given})).max_bytes == sizes


@pytest.mark.parametrize(
    "given", ["events=1GiB", "nothing=1", "results", "results=", "results=1X", "ends=1M,ends=2M", "0",
              "commands=1048575", "1023K"])
def test_a_size_that_cannot_be_used_is_named(given: str) -> None:
    with pytest.raises(BadSettings, match="NOETL_MAX_BYTES"):
        read_settings({"NOETL_MAX_BYTES": given})


def test_two_places_for_one_secret_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="NOETL_NATS_PASSWORD and NOETL_NATS_PASSWORD_FILE are both set"):
        read_settings({"NOETL_NATS_PASSWORD": "hidden", "NOETL_NATS_PASSWORD_FILE": str(tmp_path)})


def test_a_service_does_not_keep_its_secrets_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"NATS_PASSWORD": "w", "POSTGRES_DSN": "d", "POSTGRES_ADMIN_DSN": "a", "NATS_URL": "nats://u:p@h:1"}
    for name, value in given.items():
        monkeypatch.setenv(f"NOETL_{name}", value)
    monkeypatch.setenv("NOETL_SLOTS", "3")
    settings = take_settings()
    assert (settings.nats_password, settings.postgres_dsn, settings.nats_url) == ("w", "d", "nats://u:p@h:1")
    assert [name for name in os.environ if name.startswith("NOETL_")] == ["NOETL_SLOTS"]


def test_an_address_without_a_password_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_NATS_URL", "nats://here:1")
    assert take_settings().nats_url == os.environ["NOETL_NATS_URL"]
