"""What doctor makes of what it sees: each judgement, good and bad."""

from pathlib import Path

import pytest

from services.cli.doctor import access, clock, database, dead_letters, disk, durability, lag, members, streams, versions
from services.cli.doctor.access import Probe, Seen
from services.cli.doctor.clock import Skew
from services.cli.doctor.disk import Free, Limit
from services.cli.doctor.durability import Facts
from services.cli.doctor.finding import Finding, duration, ok, problem, size, skipped, warning, worst
from services.cli.doctor.lag import Behind
from services.cli.doctor.members import Pool
from shared.bus.streams import Drift

GIB = 1024**3
ROUTER_AS_WORKER = Probe("worker_default", "noetl.events.0.doctor-probe.router", may=False)
WORKER = Probe("worker_default", "noetl.events.0.doctor-probe.worker.default", may=True)
CASES: list[tuple[Finding, str]] = [
    (versions.server("2.15.1"), "ok"),
    (versions.server("2.16.0-RC.1"), "ok"),
    (versions.server("2.12.0"), "warning"),
    (versions.server("2.10.9"), "problem"),
    (versions.server(""), "problem"),
    (versions.payload(1_048_576), "ok"),
    (versions.payload(65_536), "problem"),
    (versions.jetstream("", 16, 2), "ok"),
    (versions.jetstream("no answer"), "problem"),
    (versions.client("2.16.3"), "ok"),
    (versions.client("2.11.0"), "problem"),
    (versions.client(""), "problem"),
    (versions.python((3, 13)), "ok"),
    (versions.python((3, 10)), "problem"),
    (durability.judge(Facts(1, 0.0, "said by the server")), "ok"),
    (durability.judge(Facts(3, 120.0)), "ok"),
    (durability.judge(Facts(3, None)), "ok"),
    (durability.judge(Facts(1, 120.0)), "warning"),
    (durability.judge(Facts(1, None)), "warning"),
    (durability.judge(Facts(3, 0.0, lazy=("NOETL_EVENTS_0",))), "problem"),
    (streams.missing([]), "ok"),
    (streams.missing(["NOETL_COMMANDS/default"]), "warning"),
    (streams.missing(["NOETL_EVENTS_1", "NOETL_COMMANDS"]), "problem"),
    (streams.missing(["KV_noetl_ctx"]), "problem"),
    (streams.missing(["NOETL_REQUESTS/router"]), "problem"),
    (streams.drift([])[0], "ok"),
    (streams.drift([Drift("NOETL_EVENTS_0", "duplicate_window", 1, 2)])[0], "warning"),
    (streams.drift([Drift("NOETL_EVENTS_0", "deny_delete", True, False)])[0], "problem"),
    (streams.drift([Drift("NOETL_EVENTS_0", "discard", "new", "old")])[0], "warning"),
    (streams.drift([Drift("NOETL_DLQ", "discard", "old", "new")])[0], "problem"),
    (streams.partitions(4, []), "ok"),
    (streams.partitions(4, ["NOETL_EVENTS_7"]), "problem"),
    (access.judge([Seen(WORKER, "allowed"), Seen(ROUTER_AS_WORKER, "refused")]), "ok"),
    (access.judge([Seen(WORKER, "allowed"), Seen(ROUTER_AS_WORKER, "allowed")]), "problem"),
    (access.judge([Seen(WORKER, "refused")]), "problem"),
    (access.judge([Seen(WORKER, "unclear", "no answer")]), "problem"),
    (lag.services("router", [Behind(0, 7, 9), Behind(1, 0, 0)]), "ok"),
    (lag.services("router", [Behind(0, 7, 9, 2, 3.0)]), "ok"),
    (lag.services("router", [Behind(0, 7, 9, 2, 20.0)]), "warning"),
    (lag.services("router", [Behind(0, 7, 9, 2, 200.0)]), "problem"),
    (lag.services("router", [Behind(0, 9, 7)]), "problem"),
    (lag.requests(0, 0.0), "ok"),
    (lag.requests(3, 1.0), "ok"),
    (lag.requests(3, 20.0), "warning"),
    (lag.requests(3, 100.0), "problem"),
    (dead_letters.dead({}, ()), "ok"),
    (dead_letters.dead({"noetl.dlq.requests.a": 1, "noetl.dlq.requests.b": 1}, ()), "warning"),
    (members.services("router", 2), "ok"),
    (members.services("router", 0), "problem"),
    (members.services("router", 0, pid=7), "problem"),
    (members.pool(Pool("gpu", 1, 64, 5, 5, 1.0)), "ok"),
    (members.pool(Pool("gpu", 1, 64, 5, 5, 100.0)), "warning"),
    (members.pool(Pool("gpu", 0, 0, 0, 0, 0.0)), "warning"),
    (members.pool(Pool("gpu", 0, 0, 1, 0, 0.1)), "problem"),
    (members.pool(Pool("gpu", 0, 0, 0, 1, 0.0)), "problem"),
    (members.pool(Pool("gpu", 0, 0, 0, 0, 0.0, wanted=0)), "ok"),
    (members.pool(Pool("gpu", 0, 0, 9, 0, 99.0, paused="ada")), "ok"),
    (members.pool(Pool("gpu", 1, 64, 0, 0, 0.0, unattended=True)), "warning"),
    (members.pool(Pool("gpu", 0, 0, 0, 0, 0.0, scaled=True)), "ok"),
    (members.pool(Pool("gpu", 0, 0, 1, 0, 0.1, scaled=True)), "problem"),
    (members.health({"router": True}), "ok"),
    (members.health({"router": True, "projector": False}), "problem"),
    (disk.space(Free(50 * GIB, 100 * GIB, "/data")), "ok"),
    (disk.space(Free(GIB, 2 * GIB, "/data")), "warning"),
    (disk.space(Free(9 * GIB, 100 * GIB, "/data")), "warning"),
    (disk.space(Free(1024, 100 * GIB, "/data")), "problem"),
    (disk.space(Free(GIB, 100 * GIB, "/data")), "problem"),
    (disk.space(None), "skipped"),
    (disk.limits([Limit(1, 100, "the account's")]), "ok"),
    (disk.limits([Limit(1, 100, "the account's"), Limit(85, 100, "the server's")]), "warning"),
    (disk.limits([Limit(99, 100, "the account's")]), "problem"),
    (disk.limits([Limit(0, 0, "the account's")]), "problem"),
    (disk.limits([]), "skipped"),
    (disk.writes(None), "skipped"),
    (disk.writes({"status": "ok"}), "ok"),
    (disk.writes({"status": "unavailable", "error": "JetStream stream 'X' write error: no space left"}), "problem"),
    (database.reachable("", "18"), "ok"),
    (database.reachable("refused"), "problem"),
    (database.old(database.Facts(180_004, "18.4", 90, frozenset(), 0, {})), "ok"),
    (database.writable(database.Facts(180_004, "18.4", 90, frozenset(), 0, {})), "ok"),
    (database.writable(database.Facts(180_004, "18.4", 90, frozenset(), 0, {}, read_only=True)), "problem"),
    (database.old(database.Facts(120_004, "12.4", 90, frozenset(), 0, {})), "problem"),
    (database.connections(90), "ok"),
    (database.connections(1), "warning"),
    (database.migrated({1: 1, 2: 2}, {1: "", 2: ""}), "ok"),
    (database.migrated({1: 1}, {1: "", 2: ""}), "warning"),
    (database.migrated({1: 1, 2: 2, 3: 3}, {1: "", 2: ""}), "problem"),
    (database.migrated({1: 1, 2: 2, 3: 2}, {1: "", 2: ""}), "warning"),
    (database.migrated({1: 1, 2: 2, 3: 2, 4: 3}, {1: "", 2: ""}), "problem"),
    (database.corrupt(0), "ok"),
    (database.corrupt(1), "problem"),
    (database.projector([Behind(0, 9, 9)]), "ok"),
    (database.projector([Behind(0, 8, 9, 1, 60.0)]), "warning"),
    (database.projector([Behind(0, 8, 9, 1, 600.0)]), "problem"),
    (database.projector([Behind(0, 10, 9)]), "problem"),
    (clock.judge([Skew("this machine", 0.2, 0.1), Skew("PostgreSQL", -0.5)], 5.0), "ok"),
    (clock.judge([Skew("this machine", 3.0, 2.5)], 5.0), "ok"),
    (clock.judge([Skew("this machine", 0.0), Skew("a worker", -2.0)], 5.0), "warning"),
    (clock.judge([Skew("PostgreSQL", 45.0)], 5.0), "problem"),
    (clock.judge([Skew("worker w", -6.0)], 5.0), "problem"),
    (clock.judge([Skew("worker w", -6.0)], 60.0), "warning"),
]


@pytest.mark.parametrize(("found", "status"), CASES, ids=lambda each: getattr(each, "found", str(each))[:60])
def test_each_finding_is_judged_and_says_what_to_do(found: Finding, status: str) -> None:
    assert found.status == status
    assert found.found
    if status in ("warning", "problem"):
        assert found.why
        assert found.fix


def test_the_worst_finding_is_the_verdict() -> None:
    fine, odd = ok("a", "x"), warning("b", "x", "y", "z")
    assert worst([]) == "ok"
    assert worst([fine, skipped("c", "x")]) == "skipped"
    assert worst([fine, odd]) == "warning"
    assert worst([problem("d", "x", "y", "z"), odd]) == "problem"


def test_the_server_itself_says_how_often_it_syncs() -> None:
    assert durability.from_varz({"jetstream": {"config": {"sync_always": True, "sync_interval": 1}}}) == 0.0
    assert durability.from_varz({"jetstream": {"config": {"sync_interval": 120_000_000_000}}}) == 120.0
    assert durability.from_varz({}) is None


def test_every_role_has_something_it_must_and_something_it_must_not() -> None:
    listed = access.probes(("default", "gpu"))
    users = {probe.user for probe in listed}
    assert users == {"router", "scheduler", "projector", "pools", "client", "worker_default", "worker_gpu"}
    assert {(probe.user, probe.may) for probe in listed} == {(user, may) for user in users for may in (True, False)}
    assert Probe("worker_gpu", "$KV.noetl_workers.default.doctor-probe", may=False) in listed


@pytest.mark.parametrize(("seconds", "text"), [(0.5, "0.5 s"), (12, "12 s"), (180, "3 min"), (90_000, "25 h"),
                                                (400_000, "5 days")])  # fmt: skip
def test_lengths_of_time_are_as_exact_as_needed(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_sizes_are_readable() -> None:
    assert [size(n) for n in (12, 2048, 3 * 1024**2, 5 * GIB)] == ["12 B", "2 KiB", "3 MiB", "5.0 GiB"]


@pytest.mark.parametrize(("pid", "says"), [(None, "/x/postgres/log"), (7, "kill -9 7")])
def test_a_postgresql_of_up_has_a_fix_of_its_own(pid: int | None, says: str) -> None:
    fix = database.embedded(Path("/x/postgres"), pid)
    assert says in fix
    assert "NOETL_POSTGRES_DSN" not in fix
