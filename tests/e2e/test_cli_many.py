"""Many executions at once: what holds them, lists in parts, a read model that is behind, times that are made up."""

import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from services.cli.console import exits
from tests.support.cli import Result, Up, inside
from tests.support.waiting import wait_until

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {0}, path: many/{0}}}\n"
QUICK = HEAD.format("quick") + "workflow:\n  - {step: start, tool: {kind: noop}}\n"
SIGNAL = HEAD.format("signal") + "workflow:\n  - {step: start, tool: {kind: signal, signal: go}}\n"
PAUSE = HEAD.format("pause") + "workflow:\n  - {step: start, tool: {kind: wait, for: 3600}}\n"
FULL = HEAD.format("full") + """\
executor: {spec: {policy: {limits: {key: one, max: 1}}}}
workflow:
  - {step: start, tool: {kind: signal, signal: go}}
"""
NIGHTLY = """\
apiVersion: noetl.io/v2
kind: Schedule
metadata: {name: nightly}
spec:
  playbook: {path: many/quick, payload: {}}
  cron: "30 2 * * *"
  timezone: Europe/Berlin
  overlap: skip
"""
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def stack(up: Up) -> Up:
    for name, source in {"quick": QUICK, "signal": SIGNAL, "pause": PAUSE, "full": FULL}.items():
        (up.folder / f"{name}.yaml").write_text(source)
        assert ctl(up, "register", f"{name}.yaml").returncode == 0
    (up.folder / "nightly.yaml").write_text(NIGHTLY)
    assert ctl(up, "schedule", "apply", "-f", "nightly.yaml").returncode == 0
    return up


def ctl(up: Up, *args: str) -> Result:
    return inside(*args, cwd=up.folder)


def found(up: Up, *args: str) -> Any:
    done = ctl(up, *args, "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def start(up: Up, path: str, count: int) -> list[str]:
    return [found(up, "execute", path)["execution_id"] for _ in range(count)]


def end(up: Up, *executions: str) -> None:
    assert ctl(up, "cancel", "--yes", *executions).returncode == 0
    wait_until(lambda: {found(up, "get", each)["status"] for each in executions}, "all are over", WITHIN_S,
               so=lambda left: left == {"cancelled"})


def listed(up: Up, *executions: str) -> None:
    wait_until(lambda: {row["execution_id"] for row in found(up, "get", "--limit", "100")},
               "they are in the read model", WITHIN_S, so=lambda there: there >= set(executions))


def test_why_all_and_stuck_say_what_holds_each_by_cause(stack: Up) -> None:
    signals, places, waits = start(stack, "many/signal", 3), start(stack, "many/full", 2), start(stack, "many/pause", 1)
    everything = [*signals, *places, *waits]
    listed(stack, *everything)

    told = found(stack, "why", "--all")
    causes = {each["cause"]: each for each in told["causes"]}
    assert (told["executions"], told["more"]) == (6, False)
    assert {cause: each["count"] for cause, each in causes.items()} == {
        "wait.signal": 4, "limit.execution": 1, "wait.time": 1}
    assert {each["execution_id"] for each in causes["wait.signal"]["executions"]} == {*signals, places[0]}
    assert "noetlctl signal" in causes["wait.signal"]["remedy"]
    assert told["causes"][0]["cause"] == "wait.signal", "what someone has to do comes first"
    text = ctl(stack, "why", "--all").stdout
    assert "[wait.signal]  4 executions, the first for " in text
    assert places[1] in text

    stuck = found(stack, "get", "--stuck")
    assert {row["execution_id"] for row in stuck} == {*signals, places[0]}, "what passes by itself has just begun"
    assert {row["cause"] for row in stuck} == {"wait.signal"}
    assert [row["since"] for row in stuck] == sorted(row["since"] for row in stuck)
    assert "many/signal" in ctl(stack, "get", "--stuck").stdout

    assert {each["cause"] for each in found(stack, "why", "--all", "--path", "many/pause")["causes"]} == {"wait.time"}
    cut = ctl(stack, "why", "--all", "--limit", "2")
    assert "the oldest 2 were looked at, and there are more" in cut.stderr
    end(stack, *everything)
    assert ctl(stack, "why", "--all").stdout == "nothing is live\n"


def test_why_names_one_or_all_and_not_both(stack: Up) -> None:
    assert ctl(stack, "why").returncode == exits.USAGE
    assert ctl(stack, "why", "x", "--all").returncode == exits.USAGE
    assert ctl(stack, "why", "x", "--path", "many/*").returncode == exits.USAGE


def test_a_list_that_is_cut_says_so_and_goes_on_with_the_next_page(stack: Up) -> None:
    made = start(stack, "many/quick", 5)
    listed(stack, *made)
    options = ("get", "--path", "many/quick", "--limit", "2")
    first = ctl(stack, *options, "-o", "name")
    assert "these are 1 to 2, and there are more: --page 2" in first.stderr
    pages = [ctl(stack, *options, "--page", str(n), "-o", "name") for n in (1, 2, 3)]
    assert [line for page in pages for line in page.stdout.split()] == made[::-1]
    assert pages[2].stderr == ""
    assert ctl(stack, "get", "--path", "many/quick", "--reverse", "-o", "name").stdout.split() == made
    for order in ("ended", "took", "path", "status"):
        sorted_ = ctl(stack, "get", "--path", "many/quick", "--sort", order, "-o", "name")
        assert set(sorted_.stdout.split()) == set(made), sorted_.stderr
    taken = found(stack, "get", "--path", "many/quick", "--sort", "took")
    lengths = [datetime.fromisoformat(row["finished_at"]) - datetime.fromisoformat(row["started_at"]) for row in taken]
    assert lengths == sorted(lengths, reverse=True)


def test_until_is_where_a_list_ends(stack: Up) -> None:
    made = start(stack, "many/quick", 2)
    listed(stack, *made)
    begun = {row["execution_id"]: row["started_at"] for row in found(stack, "get", "--limit", "100")}
    before = ctl(stack, "get", "--until", begun[made[1]], "--limit", "100", "-o", "name").stdout.split()
    assert made[0] in before
    assert made[1] not in before


def test_a_backfill_starts_each_past_time_once(stack: Up) -> None:
    today = datetime.now(UTC).date()
    first, last = today - timedelta(days=4), today - timedelta(days=2)
    asked = ("schedule", "backfill", "nightly", "--from", str(first), "--to", str(last))
    would = found(stack, *asked, "--dry-run")
    assert [row["local"][:16] for row in would] == [f"{first + timedelta(days=n)}T02:30" for n in range(3)]
    assert {row["status"] for row in would} == {"would start"}
    assert [row["status"] for row in found(stack, *asked)] == ["started"] * 3
    again = found(stack, *asked)
    assert [row["status"] for row in again] == ["there"] * 3
    assert [row["execution_id"] for row in again] == [row["execution_id"] for row in would]
    for row in again:
        done = wait_until(lambda row=row: found(stack, "get", row["execution_id"]), "it ends", WITHIN_S,  # type: ignore[misc]
                          so=lambda it: it["status"] != "running")
        assert done["status"] == "completed"
    assert found(stack, "schedule", "backfill", "nightly", "--from", "2999-01-01", "--to", "2999-02-01") == []
    for wrong in (("--from", "x", "--to", "y"), ("--from", "2026-01-02", "--to", "2026-01-01")):
        assert ctl(stack, "schedule", "backfill", "nightly", *wrong).returncode == exits.USAGE
    assert ctl(stack, "schedule", "backfill", "no", "--from", "2026-01-01", "--to", "2026-01-01").returncode == 7


def test_a_read_model_that_is_behind_says_so(stack: Up) -> None:
    made = start(stack, "many/quick", 1)
    listed(stack, *made)
    (pid,) = [int(each) for each in _processes("services.projector", stack.folder)]
    os.kill(pid, signal.SIGSTOP)
    try:
        start(stack, "many/quick", 1)
        late = wait_until(lambda: ctl(stack, "get", "--limit", "100").stderr, "it is said", WITHIN_S,
                          every_s=1.0, so=bool)
        assert "behind the log" in late
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: ctl(stack, "get", "--limit", "100").stderr, "it has caught up", WITHIN_S, every_s=1.0,
               so=lambda said: not said)


def test_without_postgresql_the_log_is_asked(stack: Up, tmp_path: Path) -> None:
    held = start(stack, "many/signal", 1)
    away = json.loads(stack.context_file.read_text()) | {"postgres_dsn": "postgresql://127.0.0.1:1/none"}
    file = tmp_path / "context.json"
    file.write_text(json.dumps(away))
    listing = ctl(stack, "get", "--context", str(file))
    assert listing.returncode == exits.ERROR
    assert "no answer from PostgreSQL" in listing.stderr
    assert "noetlctl why --all" in listing.stderr
    told = ctl(stack, "why", "--all", "--context", str(file))
    assert held[0] in told.stdout
    assert "PostgreSQL does not answer" in told.stderr
    end(stack, *held)


def _processes(module: str, folder: Path) -> list[str]:
    """The services of this stack alone."""
    inside = str(folder)
    seen = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                if module in (each / "cmdline").read_text() and os.readlink(each / "cwd") == inside:
                    seen.append(each.name)
            except OSError:
                continue
    return seen
