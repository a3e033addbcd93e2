"""The demand of a pool on real processes: what the pools service answers is what the log says is outstanding, also
while schedulers hold most of it back, and after the broker was killed."""

import json
import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.e2e.pools.demand import ask, demand, is_near, outstanding, start
from tests.support.cli import LIMIT_S
from tests.support.pool_ctl import Ctl, stack_in
from tests.support.processes import children
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def ctl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ctl]:
    with stack_in(tmp_path_factory.mktemp("demand")) as ctl:
        yield ctl


def compared(ctl: Ctl, pool: str, *executions: str) -> tuple[int, int, int]:
    before = outstanding(ctl, *executions)
    found = demand(ctl, pool)
    return before, found, outstanding(ctl, *executions)


def follows_the_log(ctl: Ctl, pool: str, count: int, nap: float, looks: int, *, cancelled: bool = False) -> None:
    ctl.apply(pool, workers=0, slots=8)
    loop, beside = start(ctl, pool, count, nap), start(ctl, pool, 100, nap)
    wait_until(lambda: demand(ctl, pool), "both wait", so=lambda found: found == min(count, 1000) + 100)
    assert outstanding(ctl, loop, beside) == min(count, 1000) + 100
    _, told = ask(ctl, pool)
    assert told["held"] > told["pending"] > 0, told  # most of it is in no queue
    assert ctl("pool", "scale", pool, "1")[0] == 0
    wait_until(lambda: ask(ctl, pool)[1].get("in_flight"), "it works")
    for _ in range(looks):
        time.sleep(1.0)
        before, found, after = compared(ctl, pool, loop, beside)
        assert is_near(found, before, after), (before, found, after)
    if cancelled:
        assert ctl("cancel", loop)[0] == 0
    wait_until(lambda: demand(ctl, pool), "nothing is wanted any more", 2 * LIMIT_S, so=lambda found: found == 0,
               every_s=1.0)
    for execution in (beside,) if cancelled else (loop, beside):
        ctl.completed(execution)
    ctl.rest(pool)


def test_the_demand_is_what_the_log_says_is_outstanding(ctl: Ctl) -> None:
    follows_the_log(ctl, "steady", 2_000, 0.004, 4, cancelled=True)


@pytest.mark.long
def test_the_demand_of_a_long_loop(ctl: Ctl) -> None:
    follows_the_log(ctl, "longer", 20_000, 0.004, 30, cancelled=True)


@pytest.mark.long
def test_the_demand_of_a_loop_up_to_its_end(ctl: Ctl) -> None:
    follows_the_log(ctl, "ending", 2_000, 0.004, 4)


def test_the_broker_is_killed_with_the_pool_at_zero_and_the_demand_comes_back_and_starts_a_worker(ctl: Ctl) -> None:
    ctl.apply("asleep", workers=0, slots=8)
    execution = start(ctl, "asleep", 300)
    wait_until(lambda: demand(ctl, "asleep"), "300 wait", so=lambda found: found == 300)
    (server,) = [pid for pid, line in children(ctl.up.process.pid).items() if "nats-server" in line]
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: demand(ctl, "asleep"), "it is not known", so=lambda found: found == -1)
    wait_until(lambda: demand(ctl, "asleep"), "300 wait again", so=lambda found: found == 300)
    ctl.apply("asleep", slots=8, autoscaling={"min": 0, "max": 2, "target": 200, "calm_s": 3})
    wait_until(lambda: ctl.pool("asleep")["desired"], "two workers are wanted", so=lambda found: found == 2)
    ctl.completed(execution)
    wait_until(lambda: ctl.pool("asleep"), "none is wanted, and none is there",
               so=lambda pool: (pool["desired"], pool["state"], pool["workers"]) == (0, "empty", []))


def test_a_number_that_somebody_sets_holds_until_it_is_auto_again(ctl: Ctl) -> None:
    ctl.apply("pinned", autoscaling={"min": 0, "max": 3, "target": 10, "calm_s": 1})
    wait_until(lambda: ctl.pool("pinned")["desired"], "none is needed", so=lambda found: found == 0)
    assert ctl("pool", "scale", "pinned", "2")[0] == 0
    time.sleep(3.0)
    shown = ctl.pool("pinned")
    assert (shown["desired"], shown["ready"], shown["autoscaling"]["pinned"]) == (2, 2, True)
    assert ctl("pool", "scale", "pinned", "auto")[0] == 0
    wait_until(lambda: ctl.pool("pinned")["desired"], "none is needed", so=lambda found: found == 0)


def test_an_address_that_is_no_pool_is_not_found(ctl: Ctl) -> None:
    for name in ("nowhere", "", "a%20b", "steady/more"):
        assert ask(ctl, name)[0] == 404


def test_what_belongs_to_a_release_is_not_changed_by_accident(ctl: Ctl) -> None:
    file = ctl.document("owned", workers=0)
    ours = json.loads(file.read_text())
    file.write_text(json.dumps(ours | {"metadata": {"name": "owned", "owner": "helm/noetl"}}))
    assert ctl("pool", "apply", "-f", str(file))[0] == 0
    assert ctl.pool("owned")["owner"] == "helm/noetl"
    file.write_text(json.dumps(ours | {"spec": {"workers": 0, "slots": 3}}))
    for words in (("apply", "-f", str(file)), ("delete", "owned", "--yes")):
        code, _, err = ctl("pool", *words)
        assert (code, "belongs to helm/noetl" in err, "--take-over" in err) == (8, True, True), err
    for words in (("scale", "owned", "1"), ("pause", "owned"), ("resume", "owned"), ("restart", "owned"),
                  ("drain", "owned"), ("resume", "owned"), ("scale", "owned", "0")):
        code, _, err = ctl("pool", *words)
        assert code == 0, (words, err)
    assert ctl("pool", "apply", "-f", str(file), "--take-over")[0] == 0
    assert ctl.pool("owned")["owner"] == ""
    assert ctl("pool", "delete", "owned", "--yes")[0] == 0


def test_a_name_that_kubernetes_would_not_take_is_refused(ctl: Ctl) -> None:
    code, _, err = ctl("pool", "create", "GPU_1")
    assert (code, "write gpu-1" in err) == (3, True), err
