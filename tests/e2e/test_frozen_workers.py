"""A worker whose process is frozen: everyone can see it and since when, nobody says anything untrue meanwhile, and it
is replaced. What is known of a pool's workers outlives the service that runs them."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from shared.engine.pools.reconcile import CRASHING_AFTER
from shared.events.stamp import seconds
from tests.support.pool_ctl import Ctl, stack_in
from tests.support.processes import children, running
from tests.support.waiting import wait_until

POOL = "iced"
SILENT_S = 22  # over a lease, by whose end nobody holds anything
OFF_S = 4.0  # a beat and a look, on a machine that has other things to do
OVER_S = 90.0


@pytest.fixture(scope="module")
def ctl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ctl]:
    with stack_in(tmp_path_factory.mktemp("frozen")) as ctl:
        ctl.apply(POOL, workers=1, slots=4, silent_s=SILENT_S)
        yield ctl


def ready(ctl: Ctl) -> set[int]:
    return {worker["pid"] for worker in ctl.pool(POOL)["workers"] if worker["state"] == "ready"}


def test_a_frozen_worker_is_silent_and_then_replaced(ctl: Ctl) -> None:
    execution = ctl.start(POOL, 1, 2)
    wait_until(lambda: ctl.said(execution, "begin") == {"0": 1}, "it runs")
    (pid,) = ready(ctl)
    os.kill(pid, signal.SIGSTOP)
    frozen = time.time()
    told: dict[str, str] = {}
    while "pool.no_workers" not in told:
        for reason in ctl.json("why", execution)["reasons"]:
            told[reason["cause"]] = reason["text"]
            if heard := reason["values"].get("heard"):
                assert abs(seconds(heard) - frozen) < OFF_S, reason
        assert time.time() < frozen + SILENT_S, told
        time.sleep(0.3)
    assert "lease.silent" in told
    shown = ctl.pool(POOL)
    assert shown["state"] == "silent"
    (worker,) = shown["workers"]
    assert (worker["state"], worker["pid"], worker["name"] in shown["message"]) == ("silent", pid, True)
    assert abs(seconds(worker["silent_since"]) - frozen) < OFF_S
    wait_until(lambda: bool(ready(ctl) - {pid}), "it is replaced", OVER_S)
    assert not running(pid)
    ctl.completed(execution)
    assert "silent" in ctl.pool(POOL)["workers"][0]["ended"]


def test_a_pool_stays_crashing_when_its_service_dies(ctl: Ctl) -> None:
    for _ in range(CRASHING_AFTER - 1):  # the frozen one was the first
        (pid,) = ready(ctl)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: bool(ready(ctl) - {pid}), "it is replaced", OVER_S)  # type: ignore[misc]
    assert ctl.pool(POOL)["state"] in ("crashing", "failing")  # the last lives were short
    before = ready(ctl)
    (service,) = [pid for pid, line in children(ctl.up.process.pid).items() if "services.pools" in line]
    os.kill(service, signal.SIGKILL)
    wait_until(lambda: bool(ready(ctl) - before), "a pools service goes on", OVER_S)
    shown = ctl.pool(POOL)
    assert (shown["state"], "exit code -9" in shown["message"]) == ("crashing", True), shown
