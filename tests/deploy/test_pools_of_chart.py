"""Worker pools: a Deployment each, whose number of Pods is said by nobody but whoever is to say it."""

from typing import Any

import yaml

from tests.deploy.helm import CHART, RELEASE, documents, environment, of_kind

FULL = f"{RELEASE}-noetl"
POOLS = CHART / "ci/pools-values.yaml"


def found() -> list[dict[str, Any]]:
    return documents(POOLS)


def worker(pool: str) -> dict[str, Any]:
    return of_kind(found(), "Deployment")[f"{FULL}-worker-{pool}"]


def documented(pool: str, *sets: str) -> dict[str, Any]:
    given = of_kind(documents(POOLS, "helm3", *sets), "ConfigMap")[f"{FULL}-pool-documents"]["data"]
    return dict(yaml.safe_load(given[f"{pool}.yaml"]))


def test_replicas_are_said_only_when_asked_for() -> None:
    assert worker("default")["spec"]["replicas"] == 3
    assert "replicas" not in worker("etl")["spec"]
    assert "replicas" not in worker("bursts")["spec"]
    assert "replicas" not in of_kind(documents(), "Deployment")[f"{FULL}-worker-default"]["spec"]


def test_a_pool_is_its_own_values_over_the_defaults() -> None:
    own = environment(worker("etl")["spec"]["template"]["spec"]["containers"][0])
    assert {name: own[name] for name in ("NOETL_POOL", "NOETL_SLOTS", "NOETL_PROVIDES", "NOETL_TOOLS_DISABLED")} == {
        "NOETL_POOL": "etl", "NOETL_SLOTS": "128", "NOETL_PROVIDES": "eu,gpu", "NOETL_TOOLS_DISABLED": "shell",
    }
    assert own["HTTPS_PROXY"] == "http://proxy:3128"
    assert worker("etl")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 135
    other = environment(worker("bursts")["spec"]["template"]["spec"]["containers"][0])
    assert other["NOETL_SCRIPTS"] == "/etc/noetl/scripts"
    assert other["POD_IP"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert other["NOETL_SLOTS"] == "64"


def test_nothing_of_a_pool_is_taken_for_unset_because_it_is_zero() -> None:
    sets = ("workerDefaults.replicas=5", "workerPools.default.replicas=0", "workerPools.etl.autoscaling.mode=none",
            "workerPools.bursts.autoscaling.mode=none")
    made = of_kind(documents(POOLS, "helm3", *sets), "Deployment")
    assert made[f"{FULL}-worker-default"]["spec"]["replicas"] == 0


def test_documents_belong_to_the_release() -> None:
    etl = documented("etl")
    assert etl["metadata"] == {"name": "etl", "owner": f"helm/{RELEASE}"}
    assert etl["spec"] == {
        "backend": "kubernetes", "slots": 128, "provides": ["eu", "gpu"], "tools_disabled": ["shell"], "drain_s": 120,
        "autoscaling": {"mode": "native", "min": 1, "max": 20, "target": 100, "calm_s": 300},
    }
    assert documented("bursts")["spec"]["autoscaling"] == {"mode": "keda"}
    assert documented("default")["spec"]["workers"] == 3


def test_without_the_pools_service_others_run_the_workers() -> None:
    sets = ("pools.enabled=false", "workerPools.etl.autoscaling.mode=none", "workerPools.bursts.autoscaling.mode=none")
    assert documented("etl", *sets)["spec"] == {"backend": "external", "provides": ["eu", "gpu"]}


def test_keda_asks_for_the_demand() -> None:
    scaled = of_kind(found(), "ScaledObject")
    assert set(scaled) == {f"{FULL}-worker-bursts"}
    spec = scaled[f"{FULL}-worker-bursts"]["spec"]
    assert spec["scaleTargetRef"] == {"name": f"{FULL}-worker-bursts"}
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (0, 50)
    assert spec["fallback"]["replicas"] == 2
    [trigger] = spec["triggers"]
    url = f"http://{FULL}-pools.apps.svc:8080/demand/bursts"
    assert trigger == {"type": "metrics-api",
                       "metadata": {"url": url, "valueLocation": "demand", "targetValue": "32"}}
    service = of_kind(found(), "Service")[f"{FULL}-pools"]
    assert service["spec"]["ports"][0]["port"] == 8080


def test_rights_are_those_it_needs_and_no_more() -> None:
    scale = [{"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "patch"]},
             {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "patch"]}]
    make = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create", "patch", "delete"]}
    assert of_kind(documents(), "Role")[f"{FULL}-pools"]["rules"] == scale
    assert of_kind(found(), "Role")[f"{FULL}-pools"]["rules"] == [*scale, make]
    assert not of_kind(found(), "ClusterRole")


def test_a_template_is_there_where_pools_may_be_made() -> None:
    assert f"{FULL}-worker-template" not in of_kind(documents(), "ConfigMap")
    text = of_kind(found(), "ConfigMap")[f"{FULL}-worker-template"]["data"]["deployment.yaml"]
    template = yaml.safe_load(text.replace("__POOL__", "late"))
    own = worker("etl")
    assert template["metadata"]["name"] == f"{FULL}-worker-late"
    assert template["spec"]["selector"]["matchLabels"] == {**own["spec"]["selector"]["matchLabels"],
                                                           "noetl.io/pool": "late"}
    [login] = [each for each in template["spec"]["template"]["spec"]["volumes"] if each["name"] == "login"]
    assert login["secret"]["items"] == [{"key": "worker_late.nk", "path": "user.nk"}]
    pods = of_kind(found(), "Deployment")[f"{FULL}-pools"]["spec"]["template"]["spec"]
    variables = environment(pods["containers"][0])
    assert variables["NOETL_KUBE_TEMPLATE"] == "/etc/noetl/template/deployment.yaml"
    assert (variables["NOETL_KUBE_RELEASE"], variables["NOETL_KUBE_CREATE"]) == (FULL, "true")


def jobs(*sets: str) -> set[str]:
    return set(of_kind(documents(POOLS, "helm3", *sets), "Job"))


def test_a_job_is_another_when_what_it_does_is() -> None:
    before = jobs()
    assert len(before) == 2
    assert jobs() == before
    assert not jobs("image.tag=2.0.0") & before
    assert not jobs("workerPools.more.slots=2") & before
    assert len(jobs("nats.maxBytes.results=1GiB") & before) == 1, "keys have nothing to do with it"
    assert jobs("router.replicas=7") == before


def test_the_bootstrap_may_be_a_hook() -> None:
    [job] = of_kind(documents(CHART / "ci/own-broker-values.yaml"), "Job").values()
    assert job["metadata"]["name"] == f"{FULL}-bootstrap"
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "post-install,post-upgrade"
    [other] = [each for name, each in of_kind(documents(), "Job").items() if "bootstrap" in name]
    assert "annotations" not in other["metadata"]
