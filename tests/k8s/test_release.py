"""The chart on a real API server, by Helm 3 and by Helm 4: it is installed, works, and survives upgrades."""

from collections.abc import Iterator

import pytest

from tests.deploy.helm import HELMS
from tests.k8s.cluster.api import Object
from tests.k8s.kubelet.node import Node
from tests.k8s.load import load
from tests.k8s.release import FULL, NAME, Release
from tests.support.waiting import wait_until

CASES = (("helm3", "accounts"), ("helm4", "jwt"))


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def release(request: pytest.FixtureRequest, node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """Whatever ran on it is verified before it is uninstalled."""
    program, mode = request.param
    assert program in HELMS, "HELM4_BINARY names a Helm 4: `make test-k8s` brings it"
    one = Release(node.api, node, program, mode, tmp_path_factory.mktemp(program))
    one.install()
    yield one
    code, out, err = one.ctl("verify", "--all")
    assert code == 0, (out, err)
    one.helm("uninstall", NAME, "--wait")


def test_everything_runs_and_the_jobs_end(release: Release) -> None:
    jobs = release.api.list("jobs", release.namespace)
    assert sorted(each["metadata"]["name"].rpartition("-")[0] for each in jobs) == [f"{FULL}-bootstrap", f"{FULL}-keys"]
    for each in jobs:
        assert each["status"].get("succeeded") == 1, each["status"]
    for kind in ("deployments", "statefulsets"):
        for each in release.api.list(kind, release.namespace):
            assert each["status"].get("readyReplicas") == each["spec"]["replicas"], each["metadata"]["name"]
    assert sum(map(restarts, release.pods())) == 0, release.state()


def restarts(pod: Object) -> int:
    return sum(each["restartCount"] for each in pod["status"]["containerStatuses"])


def test_helm_test_runs_an_execution(release: Release) -> None:
    release.helm("test", NAME, "--timeout", "240s")


def test_pools_are_made_scaled_drained_restarted_and_deleted_under_load(release: Release) -> None:
    ctl = release.ctl
    with load(release) as work:
        assert ctl("pool", "create", "late", "--backend", "kubernetes", "--workers", "2", "--timeout", "180s")[0] == 0
        with load(release, "late"):
            for workers in (3, 1, 2):
                for pool in ("default", "late"):
                    assert ctl("pool", "scale", pool, str(workers), "--timeout", "180s")[0] == 0
                    assert release.replicas(pool) == workers
            before = names(release, "late")
            assert ctl("pool", "restart", "late")[0] == 0
            wait_until(lambda: names(release, "late"), "two others", so=lambda now: len(now) == 2 and not now & before)
            assert ctl("pool", "drain", "late")[0] == 0
            wait_until(lambda: names(release, "late"), "none", so=lambda now: not now)
            assert ctl("pool", "resume", "late")[0] == 0
        assert ctl("pool", "delete", "late", "--yes", "--timeout", "120s")[0] == 0
        assert release.api.get("deployments", release.namespace, f"{FULL}-worker-late") is None
        begun = len(work.started)
    assert begun > 10


def names(release: Release, pool: str) -> set[str]:
    return {each["metadata"]["name"] for each in release.pods(pool=pool)}


def test_an_upgrade_and_a_rollback_leave_the_number_of_workers(release: Release) -> None:
    assert release.ctl("pool", "scale", "default", "5", "--timeout", "180s")[0] == 0
    with load(release):
        for change in (lambda: release.upgrade("logLevel=warning"), release.rollback):
            before = names(release, "default")
            change()
            assert release.replicas("default") == 5
            wait_until(lambda: names(release, "default"), "five others", 120.0,
                       so=lambda found, before=before: len(found) == 5 and not found & before)
            release.pool_is("default", desired=5, ready=5)
