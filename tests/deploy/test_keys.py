"""The Job of keys: makes what is missing, keeps what is there, and gives way to another that was faster."""

import base64
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.helm import RELEASE, documents, environment, of_kind
from tests.deploy.secrets_api import Api, load, served

USERS, KEYRING = "flows-nats-users", "flows-nats-keyring"
# As `noetlctl admin nats-auth ensure --out FOLDER` does it: what is missing is made, and nothing else.
ENSURE = """
import pathlib, secrets, sys
folder = pathlib.Path(sys.argv[2])  # behind --out
for name in ("keyring.json", "system.nk", "router.nk", "admin.nk", "server.conf", *MORE):
    file = folder / name
    if not file.exists():
        file.write_text(secrets.token_hex(8))
"""


keys = load()


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def secrets(api: Api, tmp_path: Path) -> Iterator[Any]:
    with served(api, tmp_path) as address:
        yield keys.Secrets(address, tmp_path)


def ensure(secrets: Any, *more: str) -> list[str]:
    """`more`: files that are wanted too, as for a new pool."""
    code = ENSURE.replace("MORE", repr(more))
    return list(keys.ensure(secrets, USERS, KEYRING, (sys.executable, "-c", code)))


def test_keys_are_made_once(api: Api, secrets: Any) -> None:
    assert ensure(secrets) == [KEYRING, USERS]
    before = api.files(USERS)
    assert ensure(secrets) == []
    assert api.files(USERS) == before
    assert api.tokens == {"Bearer a-token"}


def test_who_signs_is_apart_from_who_is_signed(api: Api, secrets: Any) -> None:
    ensure(secrets)
    assert set(api.files(KEYRING)) == {"keyring.json", "system.nk"}
    assert set(api.files(USERS)) == {"router.nk", "admin.nk", "server.conf"}


def test_the_keyring_is_written_first(api: Api, secrets: Any) -> None:
    ensure(secrets)
    assert api.written == [KEYRING, USERS]


def test_a_new_pool_gets_a_key_and_nobody_else_another(api: Api, secrets: Any) -> None:
    ensure(secrets)
    before = api.files(USERS)
    assert ensure(secrets, "worker_etl.nk") == [USERS]
    after = api.files(USERS)
    assert set(after) - set(before) == {"worker_etl.nk"}
    assert before.items() <= after.items()


def test_what_another_wrote_meanwhile_is_not_lost(api: Api, secrets: Any) -> None:
    other = {"metadata": {"name": KEYRING}, "data": {"keyring.json": base64.b64encode(b"theirs").decode()}}
    api.meanwhile.append(lambda: api.put(KEYRING, other))
    with pytest.raises(keys.Changed):
        ensure(secrets)
    ensure(secrets)
    assert api.files(KEYRING)["keyring.json"] == b"theirs"


def test_a_change_at_the_same_time_begins_again(api: Api, secrets: Any) -> None:
    ensure(secrets)
    touched = json.loads(json.dumps(api.secrets[USERS]))
    api.meanwhile.append(lambda: api.put(USERS, touched))
    with pytest.raises(keys.Changed):
        ensure(secrets, "worker_etl.nk")


def test_nothing_is_written_when_the_keys_cannot_be_made(api: Api, secrets: Any) -> None:
    with pytest.raises(keys.subprocess.CalledProcessError):
        keys.ensure(secrets, USERS, KEYRING, (sys.executable, "-c", "raise SystemExit(1)"))
    assert api.secrets == {}


def following(secrets: Any, program: str) -> int:
    return int(keys.follow(secrets, USERS, KEYRING, (sys.executable, "-c", program), look_s=0.05))


def test_what_is_written_while_pools_come_and_go_is_kept(api: Api, secrets: Any) -> None:
    ensure(secrets)
    before = api.files(USERS)
    program = """
import pathlib, sys, time
folder = pathlib.Path(sys.argv[2])
assert (folder / "keyring.json").exists() and (folder / "system.nk").exists()
for pool in ("a", "b"):
    (folder / f"worker_{pool}.nk").write_text(pool)
    (folder / ".half.tmp").write_text("not yet")
    (folder / "keyring.json").write_text(f"with {pool}")
    time.sleep(0.5)
sys.exit(7)
"""
    assert following(secrets, program) == 7
    assert api.files(USERS) == {**before, "worker_a.nk": b"a", "worker_b.nk": b"b"}
    assert api.files(KEYRING)["keyring.json"] == b"with b"
    assert api.written[2:] == [KEYRING, USERS, KEYRING, USERS]


def test_whoever_follows_waits_for_the_keys(api: Api, secrets: Any) -> None:
    later = threading.Timer(0.3, lambda: ensure(secrets))
    later.start()
    assert following(secrets, "import sys; sys.exit(0)") == 0
    later.join()
    assert KEYRING in api.secrets


def test_whoever_follows_begins_again_when_others_changed_the_keys(api: Api, secrets: Any) -> None:
    ensure(secrets)
    touched = json.loads(json.dumps(api.secrets[USERS]))
    api.meanwhile.append(lambda: api.put(USERS, touched))
    program = "import pathlib, sys, time; (pathlib.Path(sys.argv[2]) / 'worker_a.nk').write_text('a'); time.sleep(60)"
    with pytest.raises(keys.Changed):
        following(secrets, program)


def test_the_job_has_the_rights_for_it_and_no_more() -> None:
    full = f"{RELEASE}-noetl"
    rules = of_kind(documents(), "Role")[f"{full}-keys"]["rules"]
    names = [f"{full}-nats-users", f"{full}-nats-keyring"]
    assert rules == [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": names, "verbs": ["get", "update"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    ]
    [job] = [each for name, each in of_kind(documents(), "Job").items() if "-keys-" in name]
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["python", "/etc/noetl/keys/keys.py", "ensure", *names]
    assert environment(container)["NOETL_BROKER_AUTH"] == "accounts"


def test_nobody_mounts_the_keyring() -> None:
    found = [each for each in documents() if each["kind"] in ("Deployment", "StatefulSet", "Pod", "Job")]
    volumes = [json.dumps(each.get("spec", {}).get("template", each)["spec"]["volumes"]) for each in found]
    assert not any("nats-keyring" in each for each in volumes)


def test_who_tells_the_broker_of_pools_is_one_and_has_no_other_name() -> None:
    made = of_kind(documents(), "Deployment")[f"{RELEASE}-noetl-accounts"]["spec"]
    assert (made["replicas"], made["strategy"]) == (1, {"type": "Recreate"})
    variables = environment(made["template"]["spec"]["containers"][0])
    assert variables["NOETL_BROKER_AUTH"] == "accounts"
    assert "NOETL_NATS_NKEY_FILE" not in variables
    assert f"{RELEASE}-noetl-accounts" not in of_kind(documents(None, "helm3", "nats.auth.mode=shared"), "Deployment")
