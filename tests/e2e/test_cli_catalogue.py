"""The catalogue as its user sees it: versions, their history, the way back; credentials; questions before deletion."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.cli.console import exits
from tests.support.pool_ctl import Ctl, stack_in
from tests.support.waiting import wait_until

BOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: book, path: lib/book{version}}}
workload: {{word: one}}
keychain: [{{name: pg, kind: postgres}}]
workflow:
  - step: start
    tool: {{kind: signal, signal: go}}
    next: {{arcs: [{{step: say}}]}}
  - step: say
    tool: {{kind: python, code: "result = '{said}'"}}
"""


@pytest.fixture(scope="module")
def ctl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ctl]:
    with stack_in(tmp_path_factory.mktemp("catalogue")) as ctl:
        ctl("credential", 'pg={"user": "a", "password": "s3cret-1"}')
        yield ctl


def written(ctl: Ctl, said: str, version: str = "") -> Path:
    file = ctl.folder / f"{said}.yaml"
    file.write_text(BOOK.format(said=said, version=f", version: '{version}'" if version else ""))
    return file


def latest(ctl: Ctl) -> list[tuple[str, bool]]:
    return [(row["version"], row["latest"]) for row in ctl.json("get", "playbook", "lib/book")]


def test_versions_come_and_go_and_what_runs_keeps_its_own(ctl: Ctl) -> None:
    first, second = written(ctl, "first"), written(ctl, "second")
    assert ctl.json("register", str(first))["version"] == "1"
    execution = ctl("execute", "lib/book")[1].strip()
    wait_until(lambda: ctl.status(execution), "it runs", so=lambda found: found == "running")
    code, out, _ = ctl("register", str(second))
    assert code == exits.OK
    assert out.startswith("registered lib/book version 2 (")
    assert out.endswith("): step say changed\n")
    assert ctl("register", str(second))[1].endswith("): unchanged\n")
    assert ctl("get", "playbook", "lib/book", "-o", "yaml") == (0, second.read_text(), "")
    assert ctl("get", "playbook", "lib/book", "--version", "1", "-o", "yaml") == (0, first.read_text(), "")
    assert ctl("get", "playbook", "lib/book", "--version", "9", "-o", "yaml")[0] == exits.NOT_FOUND
    assert latest(ctl) == [("1", False), ("2", True)]
    code, out, _ = ctl("playbook", "diff", "lib/book", "1", "2")
    assert (code, out.splitlines()[0]) == (exits.ERROR, "step say changed")
    assert '-    tool: {kind: python, code: "result = \'first\'"}' in out.splitlines()
    assert ctl.json("playbook", "diff", "lib/book", "2")["same"]
    assert ctl.json("playbook", "rollback", "lib/book")["version"] == "1"
    assert latest(ctl) == [("1", True), ("2", False)]
    code, _, err = ctl("playbook", "delete", "lib/book")
    assert (code, "delete lib/book version 1, 2: add --yes" in err) == (exits.USAGE, True)
    assert ctl.json("playbook", "delete", "lib/book", "--version", "1", "--yes")["latest"] == "2"
    assert ctl.json("playbook", "delete", "lib/book", "--yes")["latest"] is None
    assert ctl("get", "playbook", "lib/book")[0] == ctl("playbook", "diff", "lib/book", "1", "2")[0] == exits.NOT_FOUND
    assert ctl("signal", execution, "go")[0] == exits.OK
    ctl.completed(execution)
    assert ctl("result", execution, "--raw")[1] == "first\n"
    history = ctl.json("playbook", "history", "lib/book")
    assert [(row["what"], row["version"]) for row in history] == [
        ("registered", "1"), ("registered", "2"), ("latest", "1"), ("latest", "2"), ("deleted", "1"), ("deleted", "2")]
    assert all("@" in row["by"] and row["at"].startswith("20") for row in history)
    assert ctl.json("playbook", "rollback", "lib/book", "--to", history[0]["digest"][:12])["status"] == "rolled back"
    assert ctl("get", "playbook", "lib/book", "-o", "yaml")[1] == first.read_text()


def test_other_content_under_a_stated_version_is_refused_and_nothing_is_stored(ctl: Ctl) -> None:
    assert ctl("register", str(written(ctl, "third", "3.0")))[0] == exits.OK
    other, more = written(ctl, "fourth", "3.0"), ctl.folder / "more.yaml"
    more.write_text(other.read_text().replace("lib/book", "lib/more"))
    code, out, err = ctl("register", str(more), str(other))
    assert (code, out) == (exits.CONFLICT, "")
    assert "version '3.0' of lib/book is registered with other content (step say changed)" in err
    assert "--replace" in err
    assert ctl("get", "playbook", "lib/more")[0] == exits.NOT_FOUND
    assert ctl.json("register", str(other), "--replace")["status"] == "changed"
    assert ctl.json("playbook", "history", "lib/book")[-1]["what"] == "replaced"


def test_a_version_that_its_source_does_not_state_is_the_one_an_id_names(ctl: Ctl) -> None:
    for said in ("fifth", "sixth"):
        found = ctl.json("register", str(written(ctl, said)))
    execution = ctl("execute", "lib/book", "--version", found["version"])[1].strip()
    assert ctl.json("describe", execution)["version"] == found["version"]
    assert ctl("cancel", execution, "--wait")[0] == exits.OK


def test_a_credential_is_rotated_and_deleted_with_its_name(ctl: Ctl) -> None:
    assert ctl.json("credential", 'gone={"user": "a", "password": "s3cret-1"}')["status"] == "stored"
    assert ctl.json("credential", 'gone={"user": "a", "password": "s3cret-1"}')["status"] == "replaced"
    code, out, err = ctl("credential", "rotate", 'gone={"password": "s3cret-2"}', "--keep")
    assert (code, out) == (exits.OK, "rotated credential gone: password\n")
    assert "s3cret" not in err
    assert ctl.json("credential", "rotate", 'gone={"user": "a", "password": "s3cret-2"}')["status"] == "unchanged"
    assert ctl.json("credential", "rotate", 'gone={"token": "s3cret-3"}')["changed"] == ["user", "password", "token"]
    assert ctl("credential", "rotate", "nobody={}")[0] == exits.NOT_FOUND
    user = written(ctl, "seventh")
    user.write_text(user.read_text().replace("lib/book", "lib/user").replace("name: pg", "name: gone"))
    assert ctl("register", str(user))[0] == exits.OK
    code, _, err = ctl("credential", "delete", "gone")
    assert (code, "which lib/user would miss: add --yes" in err) == (exits.USAGE, True)
    assert ctl.json("credential", "delete", "gone", "--yes") == {"name": "gone", "status": "deleted"}
    assert ctl("credential", "delete", "gone", "--yes")[0] == exits.NOT_FOUND
    assert ctl("get", "credential", "gone")[0] == exits.NOT_FOUND
    code, _, err = ctl("execute", "lib/user", "--wait")
    assert code != exits.OK
    assert "no credential 'gone' in the keychain" in err


def test_a_pool_is_deleted_when_someone_says_so(ctl: Ctl) -> None:
    ctl.apply("unused", workers=0)
    code, _, err = ctl("pool", "delete", "unused")
    assert (code, "this would delete pool unused: add --yes" in err) == (exits.USAGE, True)
    assert ctl.pool("unused")["name"] == "unused"
    assert ctl.json("pool", "delete", "unused", "--yes")["action"] == "deleted"
