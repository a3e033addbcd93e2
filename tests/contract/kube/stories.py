"""What a pools service does on Kubernetes, each as one story that ends with what must have come of it."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from services.pools.kubernetes.pods import COST
from tests.contract.kube.world import CREATE, ROLE, Cluster
from tests.support.waiting import until

WITHIN_S = 20.0  # for each part of a story


async def grows(cluster: Cluster) -> None:
    await cluster.declare(1)
    await cluster.reconciled(3, WITHIN_S)
    assert len(await cluster.names()) == 3


async def shrinks_by_the_idle(cluster: Cluster) -> None:
    """Kubernetes by itself would take the youngest."""
    await cluster.declare(3)
    old, *busy = await cluster.names()
    cluster.held = dict.fromkeys(busy, 5)
    await cluster.reconciled(2, WITHIN_S)
    assert await cluster.names() == busy, f"{old} is idle and should have gone"


async def minds_what_workers_hold(cluster: Cluster) -> None:
    """Whoever else makes the Deployment smaller takes the idle ones too."""
    await cluster.declare(2)
    names = await cluster.names()
    cluster.held = {names[0]: 9}
    cluster.look()
    await until(cluster.pods, "a cost on the busy one", WITHIN_S, so=lambda found: costs(found) == {names[0]: "8"})


def costs(pods: list[dict[str, Any]]) -> dict[str, str]:
    found = {each["metadata"]["name"]: each["metadata"].get("annotations", {}).get(COST, "0") for each in pods}
    return {name: cost for name, cost in found.items() if cost != "0"}


async def restarts_one_by_one(cluster: Cluster) -> None:
    await cluster.declare(2)
    await cluster.reconciled(2, WITHIN_S)
    before = await cluster.names()
    cluster.template = "r1"
    await cluster.reconciled(2, WITHIN_S)
    after = await cluster.names()
    assert len(after) == 2
    assert not set(after) & set(before)


async def is_made(cluster: Cluster) -> None:
    """From the template, with what the document says."""
    cluster.another(create=True)
    cluster.pool = replace(cluster.pool, slots=7, provides=("gpu", "eu"), drain_s=33.5)
    await cluster.reconciled(2, WITHIN_S)
    made = await cluster.found()
    spec = made["spec"]["template"]["spec"]
    env = {each["name"]: each.get("value", "") for each in spec["containers"][0]["env"]}
    assert env == {"NOETL_POOL": "etl", "NOETL_SLOTS": "7", "NOETL_PROVIDES": "gpu,eu", "NOETL_TOOLS_DISABLED": "",
                   "NOETL_DRAIN_S": "33.5", "NOETL_LOG_LEVEL": "info", "NOETL_NATS_CREDS_FILE": "/creds/etl"}
    assert spec["terminationGracePeriodSeconds"] == 49
    assert made["spec"]["selector"]["matchLabels"] == {"app": "noetl", "noetl.io/pool": "etl"}


async def is_changed(cluster: Cluster) -> None:
    """And its number of Pods stays."""
    await is_made(cluster)
    cluster.pool = replace(cluster.pool, slots=8)
    cluster.look()

    def slots(found: Any) -> bool:
        return '"NOETL_SLOTS", "value": "8"' in json.dumps(found)

    await until(cluster.found, "the Deployment is changed", WITHIN_S, so=slots)
    await cluster.reconciled(2, WITHIN_S)
    assert (await cluster.found())["spec"]["replicas"] == 2


async def is_deleted(cluster: Cluster) -> None:
    await is_made(cluster)
    cluster.deleting = True
    await until(lambda: cluster.look() or None, "nothing is left", WITHIN_S, so=lambda found: found is None)
    assert await cluster.found() is None


async def lives(cluster: Cluster) -> None:
    """A whole life, for faults at every request of it."""
    await is_made(cluster)
    cluster.held = {(await cluster.names())[-1]: 3}
    await cluster.reconciled(1, WITHIN_S)
    assert costs(await cluster.pods()).keys() <= set(cluster.held)
    cluster.deleting = True
    await until(lambda: cluster.look() or None, "nothing is left", WITHIN_S, so=lambda found: found is None)
    assert await cluster.found() is None


Story = Callable[[Cluster], Awaitable[None]]
DECLARED: tuple[Story, ...] = (grows, shrinks_by_the_idle, minds_what_workers_hold, restarts_one_by_one)
MADE: tuple[Story, ...] = (is_made, is_changed, is_deleted)
# By which story each verb is missed.
MISSED: dict[tuple[str, str], Story] = {
    ("pods", "list"): grows,
    ("pods", "patch"): shrinks_by_the_idle,
    ("deployments/scale", "get"): grows,
    ("deployments/scale", "patch"): grows,
    ("deployments", "create"): is_made,
    ("deployments", "patch"): is_changed,
    ("deployments", "delete"): is_deleted,
}
assert MISSED.keys() == ROLE | CREATE
