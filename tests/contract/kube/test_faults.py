"""A Kubernetes API that refuses, breaks and hangs at any request: what was wanted comes about all the same, and nothing
else. Only the fake can be told to."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from services.pools.kubernetes.backend import FORGET_S, KubernetesBackend
from services.pools.kubernetes.place import Place
from shared.runtime.service.clock import SystemClock
from shared.tools.kubernetes.access import access
from tests.contract.kube import stories, world
from tests.contract.kube.world import CREATE, RELEASE, ROLE, Cluster
from tests.support.servers.kube import NAMESPACE
from tests.support.servers.kube_workers import HANG, SERVICE
from tests.support.servers.tls import untrusted_server_context
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(bool(world.REAL), reason="a real API server cannot be told to fail")
OFTEN = 0.25  # of all requests fail in a run of CI
HANGS_S = 0.4  # for which an answer is waited for that never comes
KINDS = (409, 422, 429, 500, HANG)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with world.cluster(tmp_path) as one:
        one.fake.retry_after = "0"
        await one.allow(ROLE | CREATE)
        yield one


@pytest.mark.parametrize(("kind", "late"), [*((kind, False) for kind in KINDS), (500, True), (HANG, True)])
async def test_a_life_in_which_every_fourth_request_fails(cluster: Cluster, kind: int, late: bool) -> None:
    chance = random.Random(kind)
    cluster.fake.faults = {number: kind for number in range(3000) if chance.random() < OFTEN}
    cluster.fake.late, cluster.within_s = late, HANGS_S if kind == HANG else cluster.within_s
    await stories.lives(cluster)
    assert len(cluster.fake.requests) > min(cluster.fake.faults)


@pytest.mark.long
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_life_with_a_fault_at_any_one_request(kind: int, late: bool, tmp_path: Path) -> None:
    """Until one has so few requests that the fault never comes."""
    for number in range(1000):
        async with world.cluster(tmp_path) as cluster:
            cluster.fake.retry_after = "0"
            await cluster.allow(ROLE | CREATE)
            cluster.fake.faults, cluster.fake.late = {number: kind}, late
            cluster.within_s = HANGS_S if kind == HANG else cluster.within_s
            await stories.lives(cluster)
            if len(cluster.fake.requests) <= number:
                return


async def test_who_asks_for_patience_gets_it(cluster: Cluster) -> None:
    cluster.fake.retry_after = "1"
    cluster.fake.faults = {0: 429}
    cluster.look()
    await until(lambda: cluster.backend.missing(cluster.pool), "a refusal", so=lambda said: "try again" in said)
    await asyncio.sleep(0.5)
    assert len(cluster.fake.requests) == 1
    await until(lambda: len(cluster.fake.requests), "another request", 3.0, so=lambda count: count > 1)


async def test_who_is_named_during_a_look_is_noted_before_the_number_changes(cluster: Cluster) -> None:
    """Otherwise Kubernetes picks: the youngest, which in a restart is the one that has just come."""
    await cluster.declare(3)
    await cluster.reconciled(3)
    names = await cluster.names()
    cluster.held = {names[1]: 4}
    cluster.fake.meanwhile = [lambda: cluster.backend.stop(names[0], 5.0)]
    cluster.look()
    await until(cluster.names, "one less", so=lambda found: len(found) == 2)
    assert await cluster.names() == names[1:]


async def test_nothing_is_added_while_what_is_too_much_is_still_there(cluster: Cluster) -> None:
    """A controller that has not seen the lower number yet would see the higher one alone, and delete nothing."""
    await cluster.declare(3)
    await cluster.reconciled(3)
    oldest = (await cluster.names())[0]
    cluster.fake.swift = False
    cluster.backend.stop(oldest, 5.0)
    await until(cluster.found, "two are wanted", so=lambda found: found["spec"]["replicas"] == 2)
    cluster.backend.start(cluster.pool, cluster.template, 1)
    for _ in range(10):
        await asyncio.sleep(world.EVERY_S)
        assert (await cluster.found())["spec"]["replicas"] == 2
    cluster.fake.act()
    cluster.fake.swift = True
    await until(cluster.names, "another has come", so=lambda found: len(found) == 3)
    assert oldest not in await cluster.names()


async def test_trouble_with_one_pool_does_not_hold_up_another(cluster: Cluster) -> None:
    await cluster.declare(1)
    cluster.look()
    bad = replace(cluster.pool, name="e" * 60)
    cluster.backend.attend(world.Attended(bad, "r0"))
    await cluster.reconciled(3)
    assert "over 63 characters" in cluster.backend.missing(bad)


async def test_pods_come_in_pages_and_those_of_others_are_not_ours(cluster: Cluster) -> None:
    other = replace(cluster.pool, name="etl-b")  # whose Deployment begins with the other's name
    mine, cluster.pool = cluster.pool, other
    await cluster.declare(3)
    cluster.pool = mine
    await cluster.declare(2)
    cluster.fake.page = 2
    await cluster.reconciled(4)
    assert len([each for each in cluster.look() if each.status.host]) == 4
    cluster.fake.page = 500


async def test_a_scale_that_changed_meanwhile_is_read_again_and_not_overwritten_unseen(cluster: Cluster) -> None:
    await cluster.declare(2)
    await cluster.reconciled(2)
    stale = cluster.fake.deployments[cluster.deployment]["metadata"]["resourceVersion"]
    await cluster.scale(2)
    assert cluster.fake.deployments[cluster.deployment]["metadata"]["resourceVersion"] != stale
    await cluster.reconciled(5)
    assert len(await cluster.names()) == 5


async def test_pods_that_end_slowly_are_seen_as_stopping(cluster: Cluster) -> None:
    await cluster.declare(3)
    cluster.fake.grace = False
    cluster.look()
    await until(lambda: cluster.backend.missing(cluster.pool), "a look", so=lambda said: not said)
    names = await cluster.names()
    cluster.backend.stop(names[0], 5.0)
    assert [each.status.name for each in cluster.look() if each.status.stopping] == names[:1]
    await until(cluster.names, "two are left", so=lambda found: found == names[1:])
    assert [each.status.name for each in cluster.look() if each.status.stopping] == names[:1]
    cluster.fake.finish()
    await until(cluster.look, "it is gone", so=lambda found: len(found) == 2)


async def test_a_crash_loop_shows_how_the_container_ended(cluster: Cluster) -> None:
    await cluster.declare(1)
    pod = cluster.fake.pods[(await cluster.names())[0]]
    ended = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:00:10Z"}
    pod["status"]["containerStatuses"] = [{"restartCount": 4, "lastState": {"terminated": ended},
                                           "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
    found = await until(cluster.look, "the crash", so=lambda found: any(each.crashes for each in found))
    assert (found[0].status.failures, found[0].status.ended) == (4, "exit code 137, OOMKilled")
    assert [crash.at for crash in found[0].crashes] == [1767225610.0]


async def test_the_next_leader_continues_a_restart(cluster: Cluster) -> None:
    await cluster.declare(2)
    await cluster.reconciled(2)
    before = await cluster.names()
    stamped = [pod for pod in await cluster.pods() if pod["metadata"].get("annotations", {}).get("noetl.io/template")]
    await until(cluster.pods, "stamps", so=lambda found: all("annotations" in pod["metadata"] for pod in found))
    assert len(stamped) <= 2
    await cluster.backend.close(0)
    cluster.another()
    cluster.template = "r1"
    await cluster.reconciled(2)
    assert not set(await cluster.names()) & set(before)


async def test_the_account_of_the_pod_is_used_its_token_read_again_and_nothing_else(
    cluster: Cluster, tmp_path: Path, monkeypatch
) -> None:
    """TLS by the account's own certificate."""
    await cluster.fake.server.close()
    await cluster.fake.start(ssl=untrusted_server_context(tmp_path))
    text = (tmp_path / "untrusted.pem").read_text()
    account = tmp_path / "account"
    account.mkdir()
    certificate = text[text.index("-----BEGIN CERTIFICATE"):]
    for name, content in (("token", SERVICE), ("ca.crt", certificate), ("namespace", NAMESPACE)):
        (account / name).write_text(content)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(cluster.fake.server.port))
    backend = KubernetesBackend(
        Place(RELEASE), SystemClock(), lambda: access(None, account), every_s=0.02, within_s=1.0)
    cluster.backend = backend
    cluster.look()
    missing = "there is no Deployment contract-worker-etl: NOETL_KUBE_CREATE lets the pools service make it"
    await until(lambda: backend.missing(cluster.pool), missing, so=lambda said: said == missing)
    cluster.fake.tokens = {"new"}
    await until(lambda: backend.missing(cluster.pool), "refused", so=lambda said: "Unauthorized" in said)
    (account / "token").write_text("new")
    await until(lambda: backend.missing(cluster.pool), missing, so=lambda said: said == missing)
    (account / "token").unlink()
    outside = "the pools service does not run in a Kubernetes cluster"
    await until(lambda: backend.missing(cluster.pool), outside, so=lambda said: said == outside)
    await backend.close(0)
    cluster.server = replace(cluster.server, admin="new", address=cluster.fake.address)
    await cluster.fake.server.close()
    await cluster.fake.start()
    cluster.server = replace(cluster.server, address=cluster.fake.address)


async def test_a_pool_that_nobody_looks_at_any_more_is_forgotten(cluster: Cluster) -> None:
    await cluster.declare(1)
    await cluster.reconciled(1)
    cluster.clock.passed += FORGET_S + 1
    await until(lambda: cluster.backend.workers("etl"), "it is forgotten", so=lambda found: found == ())
    scale = ("GET", f"{cluster.path('deployments', cluster.deployment)}/scale")
    count = cluster.fake.requests.count(scale)
    await asyncio.sleep(5 * world.EVERY_S)
    assert cluster.fake.requests.count(scale) == count
    assert len(await cluster.names()) == 1
