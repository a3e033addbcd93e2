"""doctor and admin as people call them, on a stack of processes."""

import json
from pathlib import Path

from tests.support.cli import Cli, Up
from tests.support.examples import HELLO


def test_a_healthy_stack_has_no_problem_and_one_promise_to_know_of(up: Up, cli: Cli) -> None:
    done = cli("doctor", "-o", "json", cwd=up.folder)
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert set(report) == {"status", "broker", "counts", "checks"}
    assert {frozenset(check) for check in report["checks"]} == {frozenset({"name", "status", "found", "why", "fix"})}
    status = {check["name"]: check["status"] for check in report["checks"]}
    assert report["counts"] == {each: list(status.values()).count(each) for each in report["counts"]}
    assert [name for name, found in status.items() if found in ("warning", "problem")] == ["log.durability"]
    assert [name for name, found in status.items() if found == "skipped"] == []
    assert {"permissions", "members.health", "lag.router", "lag.projector", "clock", "disk.space"} <= status.keys()

    strict = cli("doctor", "--strict", cwd=up.folder)
    assert strict.returncode == 1
    assert "why: a killed process loses nothing that was acknowledged; a power cut may lose" in strict.stdout
    assert "fix: set `sync_interval: always`" in strict.stdout
    assert "\x1b" not in strict.stdout


def test_backup_and_restore_say_what_they_did(up: Up, cli: Cli, tmp_path: Path) -> None:
    assert cli("register", HELLO, cwd=up.folder).returncode == 0
    done = cli("admin", "backup", str(tmp_path / "b"), "--with-secrets", "-o", "json", cwd=up.folder)
    assert done.returncode == 0, done.stderr
    saved = json.loads(done.stdout)
    assert set(saved) == {
        "folder", "made_at", "version", "server", "partitions", "secrets", "bytes", "streams",
    }  # fmt: skip
    assert {frozenset(stream) for stream in saved["streams"]} == {
        frozenset({"stream", "messages", "last_seq", "bytes", "sha256"})
    }
    done = cli("admin", "restore", str(tmp_path / "b"), "--folder", str(tmp_path / "two"), "-o", "json")
    assert done.returncode == 0, done.stderr
    restored = json.loads(done.stdout)
    assert restored["streams"] == saved["streams"]
    assert (restored["restored"], restored["into"]) == (True, str(tmp_path / "two"))
    (tmp_path / "b" / "NOETL_EVENTS_0.s2").write_bytes(b"")
    broken = cli("admin", "restore", str(tmp_path / "b"), "--check")
    assert (broken.returncode, "NOETL_EVENTS_0.s2 is damaged" in broken.stderr) == (3, True)


def test_rebuild_and_purge_say_what_they_did(up: Up, cli: Cli) -> None:
    done = cli("admin", "rebuild-projection", "--yes", "-o", "json", cwd=up.folder)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == {"executions", "events", "corrupt", "partitions"}
    done = cli("admin", "purge", "--older", "1h", "--dry-run", "-o", "json", cwd=up.folder)
    assert done.returncode == 0, done.stderr
    purged = json.loads(done.stdout)
    assert set(purged) == {"before", "dry_run", "executions", "removed", "kept", "more"}
    assert purged["dry_run"] is True
