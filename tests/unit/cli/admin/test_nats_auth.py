"""noetlctl admin nats-auth, without a broker: files and what is printed of them."""

import json
import re
from functools import partial
from pathlib import Path

import pytest
import yaml

from services.cli.console import exits
from shared.runtime.broker_auth import folder, system
from tests.support.cli import noetlctl

SEED = re.compile(r"\bS[OAU][A-Z2-7]{56}\b")
Output = pytest.CaptureFixture[str]


def auth(*args: str) -> int:
    return noetlctl("admin", "nats-auth", *args)


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("NOETL_BROKER_AUTH", "NOETL_POOLS", "NOETL_PARTITIONS"):
        monkeypatch.delenv(name, raising=False)
    return str(tmp_path / "keys")


def test_keys_are_made_once(keys: str, capsys: Output) -> None:
    assert auth("ensure", "--mode", "jwt", "--pool", "etl", "--out", keys, "-o", "json") == exits.OK
    first = json.loads(capsys.readouterr().out)
    assert (first["mode"], first["pools"], first["changed"], first["applied"]) == ("jwt", ["etl"], True, False)
    assert auth("ensure", "--out", keys, "-o", "json") == exits.OK
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {**first, "changed": False}
    assert not SEED.search(printed.out + printed.err)


def test_pools_are_added_and_taken_away(keys: str, capsys: Output) -> None:
    steps = (((), ["default"]), (("--pool", "etl"), ["default", "etl"]), (("--without", "default"), ["etl"]))
    for args, pools in steps:
        assert auth("ensure", *args, "--out", keys, "-o", "json") == exits.OK
        assert json.loads(capsys.readouterr().out)["pools"] == pools
    assert not (Path(keys) / "worker_default.nk").exists()
    assert auth("ensure", "--pool", "a.b", "--out", keys) == exits.USAGE


def test_settings_of_services_say_the_same(keys: str, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    for name, value in (("BROKER_AUTH", "jwt"), ("POOLS", "a,b"), ("PARTITIONS", "2")):
        monkeypatch.setenv(f"NOETL_{name}", value)
    assert auth("ensure", "--out", keys, "-o", "json") == exits.OK
    found = json.loads(capsys.readouterr().out)
    assert (found["mode"], found["pools"]) == ("jwt", ["a", "b"])
    assert json.loads((Path(keys) / "keyring.json").read_text())["partitions"] == 2


def test_a_folder_stays_in_its_mode(keys: str, capsys: Output) -> None:
    assert auth("ensure", "--out", keys) == exits.OK
    assert auth("ensure", "--mode", "jwt", "--out", keys) == exits.CONFLICT
    assert "of mode accounts" in capsys.readouterr().err


def test_one_user_for_all_comes_with_a_warning(keys: str, capsys: Output) -> None:
    assert auth("ensure", "--mode", "shared", "--out", keys, "-o", "json") == exits.OK
    printed = capsys.readouterr()
    assert [row["user"] for row in json.loads(printed.out)["users"]] == ["noetl"]
    assert "warning: everybody has one key" in printed.err


def test_another_key_for_one(keys: str, capsys: Output) -> None:
    assert auth("ensure", "--out", keys, "-o", "json") == exits.OK
    before = {row["user"]: row["key"] for row in json.loads(capsys.readouterr().out)["users"]}
    assert auth("rotate", "--pool", "default", "--out", keys, "-o", "json") == exits.OK
    after = {row["user"]: row["key"] for row in json.loads(capsys.readouterr().out)["users"]}
    assert {user for user in before if before[user] != after[user]} == {"worker_default"}
    assert auth("rotate", "nobody", "--out", keys) == exits.NOT_FOUND
    assert auth("rotate", "--out", keys) == exits.USAGE
    assert auth("rotate", "router", "--pool", "default", "--out", keys) == exits.USAGE


def test_what_a_user_may_do_is_shown(keys: str, capsys: Output) -> None:
    assert auth("show", "--out", keys) == exits.NOT_FOUND
    assert auth("ensure", "--out", keys) == exits.OK
    capsys.readouterr()
    assert auth("show", "client", "--out", keys, "-o", "json") == exits.OK
    found = json.loads(capsys.readouterr().out)
    assert (found["account"], found["publish"]) == ("CLIENT", ["noetl.api.*"])
    assert found["hear"] == ["_INBOX_client.>", "noetl.ends.>"]
    assert auth("show", "admin", "--out", keys, "-o", "json") == exits.OK
    assert json.loads(capsys.readouterr().out)["publish"] == [">"]
    assert auth("show", "nobody", "--out", keys) == exits.NOT_FOUND


def test_secrets_of_kubernetes_hold_the_files(keys: str, capsys: Output) -> None:
    assert auth("ensure", "--mode", "jwt", "--out", keys, "--kubernetes-secret", "noetl-nats") == exits.OK
    users, keyring = yaml.safe_load_all(capsys.readouterr().out)
    assert [each["metadata"]["name"] for each in (users, keyring)] == ["noetl-nats", "noetl-nats-keyring"]
    written = {file.name: file.read_text() for file in Path(keys).iterdir()}
    assert users["stringData"] | keyring["stringData"] == written
    assert set(keyring["stringData"]) == {"keyring.json", "system.creds"}


def test_a_keyring_from_elsewhere_is_continued(keys: str, tmp_path: Path, capsys: Output) -> None:
    assert auth("ensure", "--out", keys) == exits.OK
    other, mounted = tmp_path / "other", Path(keys) / "keyring.json"
    assert auth("ensure", "--out", str(other), "--keyring", str(mounted)) == exits.OK
    assert (other / "router.nk").read_text() == (Path(keys) / "router.nk").read_text()
    assert auth("ensure", "--out", str(tmp_path / "third"), "--keyring", str(tmp_path / "none")) == exits.OK
    capsys.readouterr()


def test_following_tells_the_broker(keys: str, capsys: Output) -> None:
    assert auth("ensure", "--follow", "--out", keys) == exits.USAGE
    assert "--apply" in capsys.readouterr().err


def test_a_broker_that_is_not_there_is_told_later(keys: str, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setenv("NOETL_NATS_URL", "nats://127.0.0.1:1")
    monkeypatch.setattr(system, "connect", partial(system.connect, within_s=0.3))
    assert auth("ensure", "--out", keys, "--apply") == exits.ERROR
    said = capsys.readouterr().err
    assert "the broker was not told" in said
    assert "server.conf" in said
    assert (Path(keys) / "keyring.json").exists()


def test_keys_whose_keyring_is_gone_are_not_replaced(keys: str, capsys: Output) -> None:
    assert auth("ensure", "--out", keys) == exits.OK
    before = Path(keys, "admin.nk").read_text(encoding="utf-8")
    Path(keys, folder.KEYRING).unlink()
    capsys.readouterr()
    assert auth("ensure", "--out", keys) == exits.CONFLICT
    assert "no keyring.json" in capsys.readouterr().err
    assert Path(keys, "admin.nk").read_text(encoding="utf-8") == before


def test_a_place_that_everybody_can_write_to_or_read_is_no_place_for_keys(keys: str, capsys: Output) -> None:
    Path(keys).mkdir()
    Path(keys).chmod(0o777)
    assert auth("ensure", "--out", keys) == exits.INVALID
    assert "chmod go-w" in capsys.readouterr().err
    Path(keys).chmod(0o700)
    assert auth("ensure", "--out", keys) == exits.OK
    Path(keys, folder.KEYRING).chmod(0o644)
    capsys.readouterr()
    assert auth("ensure", "--out", keys) == exits.INVALID
    assert "chmod 600" in capsys.readouterr().err


@pytest.mark.parametrize(("given", "said"), [
    (("--pool", "UPPER"), "write upper"), (("--pool", "p" * 64), "at most 63"),
    (("--kubernetes-secret", "BAD name"), "no name of a Secret"),
])
def test_names_that_nothing_can_have_are_refused(given: tuple[str, ...], said: str, keys: str, capsys: Output) -> None:
    assert auth("ensure", "--out", keys, *given) == exits.USAGE
    assert said in capsys.readouterr().err
