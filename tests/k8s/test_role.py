"""The Role of the pools service as the chart renders it: without any one verb of it, something does not work, and the
pool says what; with it again, it does."""

from collections.abc import Iterator

import pytest

from services.cli.console.exits import OK, TIMED_OUT
from tests.k8s.cluster.api import Object
from tests.k8s.kubelet.node import Node
from tests.k8s.release import FULL, Release
from tests.support.waiting import wait_until

RIGHTS = (("apps", "deployments/scale", "get"), ("apps", "deployments/scale", "patch"), ("", "pods", "list"),
          ("", "pods", "patch"), ("apps", "deployments", "create"), ("apps", "deployments", "patch"),
          ("apps", "deployments", "delete"))
Right = tuple[str, str, str]
POOL = "late"


@pytest.fixture(scope="module")
def release(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Release:
    one = Release(node.api, node, "helm3", "shared", tmp_path_factory.mktemp("role"))
    one.install()
    return one


@pytest.fixture
def role(release: Release) -> Iterator[Object]:
    """As the chart has it; it is so again afterwards."""
    found = release.found("roles", f"{FULL}-pools")
    yield found
    allow(release, found["rules"])


def allow(release: Release, rules: list[Object]) -> None:
    release.api.merge("roles", release.namespace, f"{FULL}-pools", {"rules": rules})


def rights(role: Object) -> set[Right]:
    return {(group, resource, verb) for rule in role["rules"] for group in rule["apiGroups"]
            for resource in rule["resources"] for verb in rule["verbs"]}


def without(role: Object, right: Right) -> list[Object]:
    return [{"apiGroups": [group], "resources": [resource], "verbs": [verb]}
            for group, resource, verb in sorted(rights(role) - {right})]


def test_every_right_is_tried(role: Object) -> None:
    assert rights(role) == set(RIGHTS)


@pytest.mark.parametrize("right", RIGHTS, ids=lambda right: f"{right[1]}-{right[2]}")
def test_without_it_a_pool_is_not_what_is_wanted(release: Release, role: Object, right: Right) -> None:
    ctl, (_, resource, verb), workers = release.ctl, right, 1
    if right[1:] == ("deployments", "delete"):
        assert ctl("pool", "create", POOL, "--backend", "kubernetes", "--timeout", "120s")[0] == 0
    allow(release, without(role, right))
    if right[1] != "deployments":
        workers = 2 if release.replicas("default") != 2 else 3
        name, asked = "default", ("scale", "default", str(workers))
    elif verb == "delete":
        name, asked = POOL, ("delete", POOL, "--yes")
    else:
        name, asked = f"{POOL}-{verb}", ("create", f"{POOL}-{verb}", "--backend", "kubernetes")
    code, out, err = ctl("pool", *asked, "--timeout", "12s")
    assert code in (OK, TIMED_OUT), (out, err)  # fewer workers are promised before the API has been asked
    said = wait_until(lambda: ctl.pool(name)["message"], "a refusal", so=lambda text: "forbidden" in text)
    assert resource.partition("/")[0] in said
    assert f"cannot {verb} resource" in said or verb == "create", said  # for which the API gives no reason
    allow(release, role["rules"])
    if verb == "delete":
        assert ctl("pool", *asked)[0] == 0
    else:
        release.pool_is(name, state="ready", desired=workers, ready=workers)
