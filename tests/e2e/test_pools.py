"""The life of pools on real processes: a ledger of effects says that nothing is lost and nothing is done twice."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from shared.runtime.service.settings import Settings
from tests.support.cli import COMMAND, environment
from tests.support.paths import ROOT
from tests.support.pool_ctl import WORK, Ctl, shorten_lease, stack_in
from tests.support.processes import children, listening, running
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def ctl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ctl]:
    with stack_in(tmp_path_factory.mktemp("pools")) as ctl:
        yield ctl


def test_scaling_under_load_loses_nothing_and_does_nothing_twice(ctl: Ctl) -> None:
    ctl.apply("etl", workers=2, slots=3)
    assert ctl.pool("etl")["ready"] == 2
    execution = ctl.start("etl", 220, 0.4)
    wait_until(lambda: len(ctl.said(execution, "end")) > 3, "it runs")
    assert ctl("pool", "scale", "etl", "5")[0] == 0
    grown = ctl.pool("etl")
    assert (grown["desired"], grown["ready"]) == (5, 5)
    wait_until(lambda: ctl.pool("etl")["busy"] == 5, "the new workers have work")
    assert ctl("pool", "scale", "etl", "1")[0] == 0
    assert ctl.pool("etl")["ready"] == 1
    assert ctl.status(execution) == "running"
    assert ctl("pool", "scale", "etl", "4")[0] == 0
    ctl.completed(execution)
    once = {str(number): 1 for number in range(220)}
    assert ctl.said(execution, "begin") == once
    assert ctl.said(execution, "end") == once
    wait_until(lambda: len(ctl.pool("etl")["workers"]) == 4, "those that went are not listed")
    ctl.rest("etl")


def test_a_paused_pool_starts_nothing_until_it_is_resumed(ctl: Ctl) -> None:
    ctl.apply("calm", workers=1, slots=4)
    assert ctl("pool", "pause", "calm", "--note", "database upgrade")[0] == 0
    execution = ctl.start("calm", 6, 0.1)
    wait_until(lambda: ctl.pool("calm")["pending"] == 6, "they wait")
    time.sleep(1.0)  # nothing may come of it
    shown = ctl.pool("calm")
    assert (shown["pending"], shown["in_flight"], shown["state"]) == (6, 0, "paused")
    assert shown["paused"]["note"] == "database upgrade"
    assert "@" in shown["paused"]["by"]
    assert shown["oldest_s"] > 0.5
    assert ctl.said(execution, "begin") == {}
    began = time.monotonic()
    assert ctl("pool", "resume", "calm")[0] == 0
    ctl.completed(execution)
    assert time.monotonic() - began < 10, "waiting pulls were not woken"
    assert ctl.pool("calm")["paused"] is None


def test_a_pause_with_an_end_ends_by_itself(ctl: Ctl) -> None:
    ctl.apply("calm", workers=1, slots=4)
    assert ctl("pool", "pause", "calm", "--for", "3s")[0] == 0
    execution = ctl.start("calm", 2)
    assert ctl.pool("calm")["paused"]["until"]
    assert ctl.said(execution, "begin") == {}
    ctl.completed(execution)


def test_a_pause_outlives_the_server_and_its_queue(ctl: Ctl) -> None:
    ctl.apply("calm", workers=1, slots=4)
    assert ctl("pool", "pause", "calm")[0] == 0
    execution = ctl.start("calm", 3)
    wait_until(lambda: ctl.pool("calm")["pending"] == 3, "they wait")
    (server,) = [pid for pid, line in children(ctl.up.process.pid).items() if "nats-server" in line]
    os.kill(server, signal.SIGKILL)

    def is_back() -> bool:
        code, out, _ = ctl("pool", "describe", "calm", "-o", "json")
        return code == 0 and json.loads(out)["pending"] == 3

    wait_until(is_back, "the queue is made again")
    shown = ctl.pool("calm")
    assert (shown["delivers"], shown["in_flight"], ctl.said(execution, "begin")) == (False, 0, {})
    assert ctl("pool", "resume", "calm")[0] == 0
    ctl.completed(execution)
    assert ctl.said(execution, "end") == {"0": 1, "1": 1, "2": 1}
    ctl.rest("calm")


def test_a_drain_reports_what_finished_and_hands_the_rest_back(ctl: Ctl) -> None:
    ctl.apply("deep", workers=1, slots=4)
    short, long = ctl.start("deep", 3, 1.5), ctl.start("deep", 1, 20)
    wait_until(lambda: ctl.said(short, "begin").total() == 3 and ctl.said(long, "begin").total() == 1, "it runs")
    began = time.monotonic()
    done = ctl.json("pool", "drain", "deep", "--timeout", "3s", "--note", "new machine")
    assert time.monotonic() - began < 18, "it waited for the long one"
    assert (done["action"], done["finished"], done["left"], done["handed_back"]) == ("drained", 3, 0, 1)
    shown = ctl.pool("deep")
    assert (shown["state"], shown["workers"], shown["drain"]["handed_back"]) == ("drained", [], 1)
    assert ctl.said(short, "end").total() == 3
    assert (ctl.status(long), ctl.said(long, "end")) == ("running", {})
    assert ctl("pool", "delete", "deep")[0] == 8
    assert ctl("pool", "resume", "deep")[0] == 0
    wait_until(lambda: ctl.pool("deep")["busy"] == 1, "what was handed back is taken again")
    assert ctl("cancel", long, "--wait")[0] == 0
    ctl.rest("deep")


def test_a_killed_worker_is_replaced_and_its_run_goes_on(ctl: Ctl) -> None:
    ctl.apply("frail", workers=1, slots=4)
    shorten_lease(ctl, "frail")
    execution = ctl.start("frail", 1, 3)
    wait_until(lambda: "task.done" in ctl("events", execution, "-o", "json")[1], "the log has its first task")
    (victim,) = ctl.json("pool", "workers", "frail")
    os.kill(victim["pid"], signal.SIGKILL)
    wait_until(lambda: bool(ready_pids(ctl, "frail") - {victim["pid"]}), "it is replaced")
    ctl.completed(execution)
    assert ctl.said(execution, "begin") == {"0": 1}, "a finished task was done again"
    assert 1 <= ctl.said(execution, "end")["0"] <= 2  # it may have ended and not been reported when the kill came
    ctl.rest("frail")


def test_a_worker_at_work_listens_to_nobody(ctl: Ctl) -> None:
    """FX §10.2, FS §1.1: no inbound HTTP; commands come and reports go over its own connection to the broker."""
    ctl.apply("deaf", workers=1, slots=2)
    execution = ctl.start("deaf", 1, 1)
    wait_until(lambda: ctl.said(execution, "begin") == {"0": 1}, "it runs")
    (worker,) = ctl.json("pool", "workers", "deaf")
    assert listening(worker["pid"]) == set()
    ctl.completed(execution)
    ctl.rest("deaf")


def ready_pids(ctl: Ctl, pool: str) -> set[int]:
    return {worker["pid"] for worker in ctl.pool(pool)["workers"] if worker["state"] == "ready"}


def test_of_two_changes_at_once_one_wins_and_the_other_hears_whose_it_was(ctl: Ctl) -> None:
    ctl.apply("twice", workers=1)
    generation = ctl.pool("twice")["generation"]
    files = []
    for slots in (8, 9):
        file = ctl.folder / f"twice-{slots}.yaml"
        file.write_text(ctl.document("twice", workers=1, slots=slots).read_text())
        files.append(file)
    calls = [
        subprocess.Popen(
            [*COMMAND, "pool", "apply", "-f", str(file), "--generation", str(generation), "--no-wait",
             "--context", str(ctl.up.context_file)],
            env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for file in files
    ]
    said = [(*call.communicate(timeout=60), call.returncode) for call in calls]
    assert sorted(code for _, _, code in said) == [0, 8]
    (refused,) = [err for _, err, code in said if code == 8]
    assert f"generation {generation + 1} by " in refused
    ctl.rest("twice")


def test_delete_is_refused_while_work_waits(ctl: Ctl) -> None:
    ctl.apply("brief", workers=1, slots=1)
    assert ctl("pool", "pause", "brief")[0] == 0
    execution = ctl.start("brief", 3)
    wait_until(lambda: ctl.pool("brief")["pending"] == 3, "they wait")
    code, _, err = ctl("pool", "delete", "brief")
    assert (code, "3 pending" in err) == (8, True)
    assert ctl("pool", "resume", "brief")[0] == 0
    ctl.completed(execution)
    wait_until(lambda: ctl.pool("brief")["in_flight"] == 0, "the last ones are acknowledged")
    assert ctl("pool", "drain", "brief")[0] == 0
    assert ctl.json("pool", "delete", "brief", "--yes")["action"] == "deleted"
    assert ctl("pool", "describe", "brief")[0] == 7
    assert "worker_brief" not in users_without(ctl, gone="worker_brief")


def users_without(ctl: Ctl, gone: str) -> set[str]:
    wait_until(lambda: gone not in ctl.up.context["pools"], "the context no longer names it")
    return set(ctl.up.context["pools"])


def test_a_killed_pools_service_leaves_no_worker_behind_and_starts_none_twice(ctl: Ctl) -> None:
    ctl.apply("etl", workers=2)
    before = {worker["pid"] for worker in ctl.pool("etl")["workers"]}
    (service,) = [pid for pid, line in children(ctl.up.process.pid).items() if "services.pools" in line]
    os.kill(service, signal.SIGKILL)
    wait_until(lambda: not any(map(running, before)), "the workers of the killed service end")

    def is_back() -> bool:
        pids = ready_pids(ctl, "etl")
        return len(pids) == 2 and not pids & before

    wait_until(is_back, "there are two new ones")
    (service,) = [pid for pid, line in children(ctl.up.process.pid).items() if "services.pools" in line]
    wanted = sum(pool["desired"] or 0 for pool in ctl.json("pool", "list"))
    wait_until(lambda: len(children(service)) == wanted, f"{wanted} workers run")


def test_another_pools_service_takes_over_when_the_first_is_silent(ctl: Ctl) -> None:
    ctl.apply("etl", workers=2)
    (first,) = [pid for pid, line in children(ctl.up.process.pid).items() if "services.pools" in line]
    context, home = ctl.up.context, ctl.up.context_file.parent
    own = {
        "NOETL_NATS_URL": context["nats_url"], "NOETL_NATS_USER": "pools", "NOETL_LOGS": str(ctl.folder),
        "NOETL_NATS_PASSWORD": context["users"]["pools"], "NOETL_PASSWORDS": str(home / "nats" / "passwords.json"),
        "NOETL_INSTANCE": "second",
    }
    with (ctl.folder / "second.log").open("wb") as log:
        second = subprocess.Popen(
            [sys.executable, "-m", "services.pools"], cwd=ROOT, env=environment(**own), stdout=log, stderr=log
        )
    try:
        wait_until(lambda: "service.ready" in (ctl.folder / "second.log").read_text(), "it stands by")
        assert children(second.pid) == {}
        old = set(children(first))
        os.kill(first, signal.SIGSTOP)
        wait_until(lambda: len(children(second.pid)) == len(old), "it takes over")
        os.kill(first, signal.SIGCONT)
        wait_until(lambda: not any(map(running, old)), "the first one gives up its workers")
        wait_until(lambda: ctl.pool("etl")["ready"] == 2, "the pool is ready")
    finally:
        os.kill(first, signal.SIGCONT)
        second.terminate()
        assert second.wait(40) == 0
    wait_until(lambda: len(children(first)) == len(old), "the first one leads again")
    wait_until(lambda: ctl.pool("etl")["state"] == "ready", "the pool is ready")


def test_a_restart_replaces_the_workers_one_by_one(ctl: Ctl) -> None:
    ctl.apply("etl", workers=2)
    before = {worker["pid"] for worker in ctl.pool("etl")["workers"]}
    assert ctl.json("pool", "restart", "etl")["action"] == "restarted"
    after = ready_pids(ctl, "etl")
    assert (len(after), after & before) == (2, set())


def test_an_external_pool_is_known_by_what_its_workers_say(ctl: Ctl) -> None:
    created = ctl.json("pool", "create", "abroad", "--backend", "external", "--provides", "eu,gpu")
    assert (created["action"], created["generation"]) == ("created", 1)
    assert ctl("pool", "create", "abroad", "--backend", "external")[0] == 8
    assert ctl.pool("abroad")["state"] == "empty"
    wait_until(lambda: "worker_abroad" in ctl.up.context["users"], "it has an account")
    context = ctl.up.context
    own = {
        "NOETL_NATS_URL": context["nats_url"], "NOETL_NATS_USER": "worker_abroad", "NOETL_POOL": "abroad",
        "NOETL_NATS_PASSWORD": context["users"]["worker_abroad"], "NOETL_PROVIDES": "eu,gpu", "NOETL_SLOTS": "3",
    }
    with (ctl.folder / "abroad.log").open("wb") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "services.worker"], cwd=ROOT, env=environment(**own), stdout=log, stderr=log
        )
    try:
        wait_until(lambda: ctl.pool("abroad")["ready"] == 1, "its worker is seen")
        (row,) = ctl.json("pool", "workers", "abroad")
        assert (row["pid"], row["slots"], row["provides"]) == (worker.pid, 3, ["eu", "gpu"])
        execution = ctl.start("abroad", 2, where="requires: [gpu, eu]")
        ctl.completed(execution)
        events = [json.loads(line) for line in ctl("events", execution, "-o", "jsonl")[1].splitlines()]
        chosen = [e["payload"]["pools"] for e in events if e["event_type"] == "playbook.request.evaluated"]
        assert chosen == [{"start": "abroad"}]
        assert {e["payload"]["pool"] for e in events if e["event_type"] == "step.scheduled"} == {"abroad"}
        for refused in (("scale", "abroad", "2"), ("restart", "abroad"), ("logs", "abroad")):
            code, _, err = ctl("pool", *refused)
            assert (code, "is external" in err) == (1, True)
        assert ctl.json("pool", "drain", "abroad", "--timeout", "10s")["left"] == 0
    finally:
        worker.terminate()
        worker.wait(30)
    assert ctl.json("pool", "delete", "abroad", "--yes")["action"] == "deleted"


def test_what_no_pool_provides_fails_the_execution_at_once(ctl: Ctl) -> None:
    file = ctl.folder / "lost.yaml"
    file.write_text(WORK.format(name="lost", where="requires: [quantum]"))
    assert ctl("register", str(file))[0] == 0
    code, _, err = ctl("execute", "pools/lost")
    assert (code, "no pool provides quantum, which step start requires" in err) == (1, True)
    code, _, err = ctl("execute", "pools/lost", "--dry-run")
    assert (code, "it would be refused: no pool provides quantum" in err) == (1, True)
    code, _, err = ctl("validate", str(file), "--server")
    assert (code, "DSL414" in err) == (3, True)


LISTED = {
    "name", "backend", "desired", "ready", "busy", "pending", "in_flight", "oldest_s", "state", "message", "slots",
    "provides", "generation", "tools",
}
WORKER = {
    "name", "pool", "state", "slots", "held", "since", "host", "pid", "version", "provides", "failures", "ended", "log",
    "runs", "tools", "silent_since",
}
DESCRIBED = LISTED | {
    "labels", "owner", "autoscaling", "drain_s", "silent_s", "tools_disabled", "by", "at", "restarts", "delivers",
    "paused", "drain", "workers", "document",
}
CHANGED = {"name", "action", "generation", "workers", "by", "at"}


def test_json_has_the_documented_shape(ctl: Ctl) -> None:
    ctl.apply("shape", workers=1, slots=2, provides=["eu"])
    for listed in (ctl.json("pool", "list"), ctl.json("pool", "top")):
        assert {frozenset(row) for row in listed} == {frozenset(LISTED)}
    described = ctl.pool("shape")
    assert set(described) == DESCRIBED
    assert [set(worker) for worker in described["workers"]] == [WORKER]
    assert {frozenset(row) for row in ctl.json("pool", "workers")} == {frozenset(WORKER)}
    for call in (("pause", "shape", "--note", "why"), ("resume", "shape"), ("scale", "shape", "0")):
        assert set(ctl.json("pool", *call)) == CHANGED
    (same,) = ctl.json("pool", "diff", "-f", str(ctl.document("shape", workers=0, slots=2, provides=["eu"])))
    assert (set(same), same["changes"]) == ({"name", "exists", "generation", "changes"}, [])
    other = str(ctl.document("shape", workers=0, slots=3, provides=["eu"]))
    (diff,) = ctl.json("pool", "diff", "-f", other)
    assert diff["changes"] == [{"field": "slots", "from": 2, "to": 3}]
    assert ctl("pool", "diff", "-f", other, "--exit-code")[0] == 1
    drained = ctl.json("pool", "drain", "shape")
    assert set(drained) == CHANGED | {"finished", "left", "handed_back"}
    shown = ctl.pool("shape")["drain"]
    assert set(shown) == {"by", "at", "timeout_s", "note", "over", "finished", "left", "handed_back"}
    assert set(ctl.json("pool", "delete", "shape", "--yes")) == CHANGED


def test_tables_are_for_people(ctl: Ctl) -> None:
    ctl.apply("calm", workers=1, slots=4)
    _, out, _ = ctl("pool", "list")
    assert out.splitlines()[0].split() == [
        "NAME", "BACKEND", "DESIRED", "READY", "BUSY", "PENDING", "IN-FLIGHT", "OLDEST", "PYTHON", "STATE",
    ]
    (row,) = [line.split() for line in out.splitlines() if line.startswith("calm ")]
    assert row == ["calm", "process", "1", "1", "0", "0", "0", "-", f"0/{Settings().python_processes}", "ready"]
    assert "calm" in ctl("pool", "list", "-o", "name")[1].split()
    assert "pool calm: ready" in ctl("pool", "describe", "calm")[1]
    (worker,) = ctl.json("pool", "workers", "calm")
    code, out, _ = ctl("pool", "logs", "calm", "-n", "5000")
    assert (code, f"{worker['name']} | " in out, "service.ready" in out) == (0, True, True)
    assert ctl("pool", "logs", "calm", "--worker", "nobody")[0] == 7
    for call in (("describe", "nobody"), ("scale", "nobody", "1"), ("pause", "nobody"), ("delete", "nobody")):
        assert ctl("pool", *call)[0] == 7


def test_a_pool_that_is_not_valid_is_refused_with_its_place(ctl: Ctl) -> None:
    file = ctl.document("wrong", workers="two")
    code, _, err = ctl("pool", "apply", "-f", str(file))
    assert (code, "DSL203" in err, "wrong.yaml:1:" in err) == (3, True, True)
    assert ctl("validate", str(file))[0] == 3
    assert ctl("validate", str(ctl.document("wrong", workers=2)))[0] == 0
