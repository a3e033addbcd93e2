"""noetlctl context: named stacks, kept for their owner alone."""

import io
import json
import stat
from pathlib import Path

import pytest

from services.cli.console import exits
from services.cli.console.exits import CliError
from services.cli.stack import context
from services.cli.stack.context import Context
from shared.bus.login.nkeys import Key
from tests.support.cli import noetlctl


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("NOETL_CONTEXT", "NOETL_NATS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NOETL_CONFIG", str(tmp_path / "conf" / "config.json"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "conf" / "config.json"


def add(name: str, *more: str) -> int:
    return noetlctl("context", "add", name, "--url", f"nats://{name}:4222", *more)


def test_the_first_one_added_is_in_use_until_another_is(file: Path) -> None:
    assert [add("one"), add("two")] == [exits.OK, exits.OK]
    assert context.find(None).nats_url == "nats://one:4222"
    assert noetlctl("context", "use", "two") == exits.OK
    assert context.find(None).nats_url == "nats://two:4222"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_passwords_come_from_stdin_or_a_file_and_are_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pw").write_text("s3cret-file\n")
    (tmp_path / "dsn").write_text("postgresql://me:s3cret-dsn@db/x\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("s3cret-stdin\n"))
    assert add("one", "--password-file", str(tmp_path / "pw"), "--postgres-dsn", f"@{tmp_path / 'dsn'}") == exits.OK
    assert add("two", "--user", "ops", "--password-stdin") == exits.OK
    one, two = context.find(Path("one")), context.find(Path("two"))
    assert (one.nats_user, one.nats_password, one.postgres_dsn) == (
        "admin", "s3cret-file", "postgresql://me:s3cret-dsn@db/x")
    assert (two.nats_user, two.nats_password) == ("ops", "s3cret-stdin")
    assert noetlctl("context", "show", "one", "-o", "json") == noetlctl("context", "list", "-o", "wide") == exits.OK
    shown = capsys.readouterr().out
    assert "s3cret" not in shown
    assert "postgresql://me:***@db/x" in shown


def test_a_context_file_can_be_given_a_name(tmp_path: Path) -> None:
    context.write(tmp_path, Context("nats://up:1", {"admin": "pw"}, partitions=8))
    assert noetlctl("context", "add", "local", "--from", str(tmp_path / "context.json")) == exits.OK
    assert (context.find(Path("local")).partitions, context.find(None).nats_password) == (8, "pw")


def test_a_name_goes_before_a_file_and_dot_slash_is_the_file(tmp_path: Path) -> None:
    (tmp_path / "same").write_bytes(b'{"nats_url": "nats://file", "users": {}}')
    add("same")
    assert context.find(Path("same")).nats_url == "nats://same:4222"
    assert context.find(None, {"NOETL_CONTEXT": "./same", "NOETL_CONFIG": "x"}).nats_url == "nats://file"


def test_the_environment_may_name_one(file: Path) -> None:
    add("one")
    add("two")
    found = context.find(None, {"NOETL_CONTEXT": "two", "NOETL_NATS_URL": "nats://url", "NOETL_CONFIG": str(file)})
    assert found.nats_url == "nats://two:4222"


def test_a_removed_one_is_gone_and_not_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    add("one")
    assert noetlctl("context", "remove", "one") == exits.OK
    capsys.readouterr()
    assert noetlctl("context", "list", "-o", "json") == exits.OK
    assert json.loads(capsys.readouterr().out) == []
    assert noetlctl("context", "show") == exits.NOT_FOUND


@pytest.mark.parametrize("command", ["use", "show", "remove"])
def test_one_that_is_not_there_is_exit_code_7(command: str) -> None:
    assert noetlctl("context", command, "nosuch") == exits.NOT_FOUND
    with pytest.raises(CliError, match="no context 'nosuch'"):
        context.find(Path("nosuch"))


@pytest.mark.parametrize("args", [("a b", "--url", "x"), ("a",), ("a", "--url", "x", "--from", "y")])
def test_wrong_use_is_told(args: tuple[str, ...]) -> None:
    assert noetlctl("context", "add", *args) == exits.USAGE


def test_a_file_others_can_read_is_not_used(file: Path) -> None:
    add("one")
    file.chmod(0o644)
    with pytest.raises(CliError, match="chmod 600"):
        context.find(None)


def test_a_file_that_is_broken_says_which(file: Path) -> None:
    add("one")
    file.write_text("{")
    with pytest.raises(CliError, match=r"config\.json cannot be used"):
        context.find(None)


def test_the_list_marks_where_commands_really_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def marked() -> list[tuple[str, bool, bool]]:
        capsys.readouterr()
        assert noetlctl("context", "list", "-o", "json") == exits.OK
        return [(row["name"], row["current"], row["chosen"]) for row in json.loads(capsys.readouterr().out)]

    add("one")
    add("two")
    assert marked() == [("one", True, True), ("two", False, False)]
    (tmp_path / ".noetl").mkdir()
    context.write(tmp_path / ".noetl", Context("nats://up:1", {"admin": "pw"}))
    assert marked() == [("one", False, True), ("two", False, False), (".noetl/context.json", True, False)]
    assert noetlctl("context", "show", "-o", "json") == exits.OK
    assert json.loads(capsys.readouterr().out)["nats_url"] == "nats://up:1"
    assert noetlctl("context", "use", "two") == exits.OK
    assert "go to .noetl/context.json all the same" in capsys.readouterr().err
    monkeypatch.setenv("NOETL_NATS_URL", "nats://me:s3cret@env:1")
    assert marked()[2:] == [("NOETL_NATS_URL", True, False)]
    monkeypatch.setenv("NOETL_CONTEXT", "one")
    assert marked() == [("one", True, False), ("two", False, True)]
    assert noetlctl("context", "list") == exits.OK
    shown = capsys.readouterr().out
    assert "(*)" in shown
    assert "s3cret" not in shown


def test_without_any_stack_the_list_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl("context", "list", "-o", "json") == exits.OK
    assert json.loads(capsys.readouterr().out) == []


def test_files_to_log_in_with_are_kept_by_their_paths(tmp_path: Path) -> None:
    (tmp_path / "admin.nk").write_text(Key("user", b"k" * 32).seed)
    made = ("--replicas", "3", "--placement", "a,b", "--max-bytes", "ends=1M")
    assert add("keyed", "--nkey", "admin.nk", *made) == exits.OK
    found = context.find(Path("keyed"))
    assert (found.nats_nkey_file, found.nats_user, found.role) == (str(tmp_path / "admin.nk"), "", "admin")
    assert (found.replicas, found.placement, found.max_bytes) == (3, ("a", "b"), ("ends=1M",))
    assert context.inbox(found).startswith("_INBOX_admin.")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("--nkey", "n", "--creds", "c"), ("nats_nkey_file", "nats_creds_file")),
        (("--nkey", "n", "--user", "ops"), ("nats_nkey_file", "user")),
        (("--cert", "c"), ("nats_cert_file", "nats_key_file")),
        (("--creds", "c"), ("NOETL_NATS_CREDS_FILE", "No such file")),
        (("--max-bytes", "events=1G"), ("NOETL_MAX_BYTES", "the log")),
    ],
)
def test_what_contradicts_itself_is_not_kept(
    given: tuple[str, ...], named: tuple[str, ...], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add("wrong", *given) == exits.ERROR
    said = capsys.readouterr().err
    assert all(each in said for each in named), said
    assert not file.exists()


@pytest.mark.parametrize(
    ("environ", "inbox"),
    [
        ({}, "_INBOX_admin"),
        ({"NOETL_NATS_USER": "ops"}, "_INBOX_admin"),
        ({"NOETL_NATS_USER": "router"}, "_INBOX_router"),
        ({"NOETL_NATS_URL": "nats://worker_gpu:p@h:1"}, "_INBOX_worker_gpu"),
        ({"NOETL_ROLE": "client"}, "_INBOX_client"),
    ],
)
def test_whose_inboxes_are_heard_follows_from_the_role(environ: dict[str, str], inbox: str) -> None:
    found = context.find(None, {"NOETL_NATS_URL": "nats://h:1", **environ})
    assert context.inbox(found).startswith(f"{inbox}.")
