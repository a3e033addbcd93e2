"""A task that kills its worker: the run fails after so many lost leases, others go on, and everyone can see why."""

import json
from collections.abc import Iterator

import pytest

from shared.dsl.model.plan import MAX_LEASES
from shared.events.failure import WORKER_LOST
from tests.support.pool_ctl import Ctl, shorten_lease, stack_in
from tests.support.waiting import wait_until

POOL = "doomed"
OVER_S = 150.0
DOOM = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: doom, path: lost/doom}
workload: {ledger: ""}
workflow:
  - step: start
    spec: {pool: doomed}
    tool:
      - name: say
        kind: shell
        cmds: ['echo doom >> "{{ workload.ledger }}"']
      - name: kill
        kind: python
        code: |
          import os, signal
          def main():
              pid = os.getpid()
              while "services.worker" not in open(f"/proc/{pid}/cmdline").read():
                  pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
              os.kill(pid, signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def ctl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ctl]:
    with stack_in(tmp_path_factory.mktemp("lost")) as ctl:
        yield ctl


def test_a_task_that_kills_its_worker_fails_its_run_after_so_many_leases(ctl: Ctl) -> None:
    ctl.apply(POOL, workers=2, slots=4)
    shorten_lease(ctl, POOL)
    file = ctl.folder / "doom.yaml"
    file.write_text(DOOM)
    assert ctl("register", str(file))[0] == 0
    execution = ctl.json("execute", "lost/doom", "--payload", json.dumps({"ledger": str(ctl.ledger)}))["execution_id"]
    wait_until(lambda: len(_lost(ctl, execution)) >= 1, "a lease is lost", OVER_S)
    (reason, *_) = ctl.json("why", execution)["reasons"]
    assert "leases in a row were lost" in reason["text"], reason
    wait_until(lambda: ctl.json("describe", execution)["status"] != "running", "it ends", OVER_S)
    found = ctl.json("describe", execution)
    assert found["status"] == "failed"
    assert found["error"]["kind"] == WORKER_LOST
    assert len({lease["pid"] for lease in found["error"]["leases"]}) == MAX_LEASES, "each life is told apart"
    assert len(_lost(ctl, execution)) == MAX_LEASES
    assert all(lease["worker"] in found["error"]["message"] for lease in _lost(ctl, execution))
    assert WORKER_LOST in ctl.json("why", execution)["reasons"][0]["text"]
    assert ctl("verify", execution)[0] == 0
    assert ctl("replay", execution)[0] == 0
    pool = ctl.pool(POOL)
    assert (pool["state"], "exit code -9" in pool["message"]) == ("crashing", True)
    ctl.completed(ctl.start(POOL, 4, 0.1))


def _lost(ctl: Ctl, execution: str) -> list[dict[str, str]]:
    return [held for run in ctl.json("describe", execution)["runs"] for held in run["held"] if held["ended"] == "lost"]
