"""Settings come from NOETL_* alone, are typed, and a bad one is named."""

import os
from pathlib import Path

import pytest

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
    settings = read_settings({f"NOETL_{field.upper()}_FILE": str(file)})
    assert getattr(settings, field) == "nats://word", "the end of the line is not a part of it"


def test_a_file_that_cannot_be_used_is_named_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    bad = ((None, "No such file"), (b"\xff\xfe", "no text"), (b"x" * (MAX_BYTES + 1), "over 65536 bytes"))
    for content, why in bad:
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(BadSettings, match=f"NOETL_NATS_PASSWORD_FILE: .*{why}"):
            read_settings({"NOETL_NATS_PASSWORD_FILE": str(file)})


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
