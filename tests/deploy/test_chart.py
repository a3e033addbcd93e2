"""The chart with every set of values it is shipped with: what Helm and Kubernetes take, and what every Pod keeps to."""

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from shared.bus.topology import COMMAND_LEASE_S
from tests.deploy import helm as chart_of
from tests.deploy.helm import (
    CHART,
    CI_VALUES,
    HELMS,
    RELEASE,
    Document,
    documents,
    environment,
    of_kind,
    pods,
    project,
    run,
)
from tests.deploy.pod_security import violations
from tests.support.paths import ROOT

OLDEST, NEWEST = "1.27", "1.37"  # of Kubernetes, that have schemas here
CRDS = {  # of others: they have no schema here
    "ScaledObject": "keda.sh/v1alpha1",
    "PodMonitor": "monitoring.coreos.com/v1",
    "PrometheusRule": "monitoring.coreos.com/v1",
}
GRACE_S = 15
SECRET = re.compile(r"\bS[ACNOUX][A-Z2-7]{56}\b|\beyJ[\w-]{20,}|PRIVATE KEY|://[^/\s\"]*:[^/\s\"]*@")

every_values = pytest.mark.parametrize("values", CI_VALUES, ids=lambda path: path.name)
every_helm = pytest.mark.parametrize("helm", HELMS)


@every_helm
@every_values
def test_helm_finds_nothing_wrong(helm: str, values: Path) -> None:
    done = run(helm, "lint", "--strict", str(CHART), "-f", str(values))
    assert done.returncode == 0, done.stdout + done.stderr


@every_helm
@every_values
def test_two_renders_are_the_same(helm: str, values: Path) -> None:
    once = chart_of.text(values, helm)
    chart_of.text.cache_clear()
    assert chart_of.text(values, helm) == once
    assert documents(values, helm) == documents(values, "helm3")


@every_helm
def test_it_renders_without_values(helm: str) -> None:
    assert documents(None, helm)


def versions() -> list[Any]:
    """Every set of values with a version each; the long form has them all with both."""
    pairs = [(values, version) for values in CI_VALUES for version in (OLDEST, NEWEST)]
    short = {(values, (OLDEST, NEWEST)[number % 2]) for number, values in enumerate(CI_VALUES)}
    marks = {True: (), False: pytest.mark.long}
    return [pytest.param(*pair, marks=marks[pair in short], id=f"{pair[0].name}-{pair[1]}") for pair in pairs]


@pytest.mark.parametrize(("values", "version"), versions())
def test_kubernetes_takes_every_document(values: Path, version: str) -> None:
    for each in documents(values):
        if each["kind"] in CRDS:
            assert each["apiVersion"] == CRDS[each["kind"]]
        else:
            kubernetes_validate.validate(each, version, strict=True)


@every_values
def test_names_are_those_of_one_thing_each(values: Path) -> None:
    found = [(each["kind"], each["metadata"]["name"]) for each in documents(values)]
    assert len(found) == len(set(found))
    assert all(len(name) <= 63 for _, name in found)
    assert all(each["metadata"]["namespace"] == "apps" for each in documents(values))


@every_values
def test_pods_keep_to_the_restricted_profile_and_more(values: Path) -> None:
    for name, pod in pods(documents(values)).items():
        assert violations(pod) == [], name
        security = pod["spec"]["securityContext"]
        assert (security["runAsUser"], security["runAsGroup"]) == (65532, 65532)
        for container in pod["spec"]["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["resources"]["limits"]["memory"]


@every_values
def test_only_who_talks_to_the_api_has_a_token_and_none_has_variables_of_services(values: Path) -> None:
    """With service links, a Service called noetl-health would set NOETL_HEALTH_PORT."""
    for pod in pods(documents(values)).values():
        component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
        assert pod["spec"]["automountServiceAccountToken"] is (component in ("pools", "keys", "accounts"))
        assert pod["spec"]["enableServiceLinks"] is False
    for account in of_kind(documents(values), "ServiceAccount").values():
        assert account["automountServiceAccountToken"] is False


@every_values
def test_no_key_is_anywhere_but_in_secrets_which_the_chart_does_not_render(values: Path) -> None:
    found = documents(values)
    assert not of_kind(found, "Secret")
    assert SECRET.search(chart_of.text(values)) is None
    for pod in pods(found).values():
        for container in pod["spec"]["containers"]:
            named = {name for name in environment(container) if re.search("PASSWORD|DSN|TOKEN|SEED", name)}
            assert all(name.endswith("_FILE") for name in named)


def test_a_key_would_be_noticed() -> None:
    seed = "SU" + "A" * 56
    for planted in (seed, "eyJ0eXAiOiJKV1QiLCJhbGci", "-----BEGIN PRIVATE KEY-----", "nats://admin:pw@broker"):
        assert SECRET.search(f"value: {planted}\n")


def services(values: Path) -> dict[str, Document]:
    """Those that are services of ours, and not a command of noetlctl that keeps running."""
    made = {name: pod for name, pod in pods(documents(values)).items() if name.startswith("Deployment/")}
    found = {name: pod for name, pod in made.items() if not name.endswith("-accounts")}
    assert len(found) >= 3
    return found


@every_values
def test_a_service_has_the_time_to_go(values: Path) -> None:
    """To drain, and 15 s for handing back what is left; over the lease of a command, which nobody else gets before."""
    for pod in services(values).values():
        drain = float(environment(pod["spec"]["containers"][0])["NOETL_DRAIN_S"])
        assert pod["spec"]["terminationGracePeriodSeconds"] == drain + GRACE_S > COMMAND_LEASE_S


@every_values
def test_each_service_is_started_as_a_module_that_is_there_and_probed(values: Path) -> None:
    for pod in services(values).values():
        container = pod["spec"]["containers"][0]
        assert container["command"][:2] == ["python", "-m"]
        assert (ROOT / container["command"][2].replace(".", "/") / "__main__.py").exists()
        assert container["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "health"}
        assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
        assert environment(container)["NOETL_HEALTH_PORT"] == "8080"


@every_values
def test_a_variable_is_there_once(values: Path) -> None:
    for pod in pods(documents(values)).values():
        for container in pod["spec"]["containers"]:
            names = [each["name"] for each in container.get("env", ())]
            assert sorted(set(names)) == names


@every_values
def test_a_pod_sees_the_key_of_its_own_user_alone(values: Path) -> None:
    found = documents(values)
    mode = "jwt" if "own-broker" in values.name else "shared" if "plain" in values.name else "accounts"
    for name, pod in pods(found).items():
        keys = [item["key"] for source in _secrets(pod) for item in source["items"]
                if item["key"].endswith((".nk", ".creds"))]
        component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
        if component in ("nats", "keys", "accounts"):
            assert keys == [], name
            continue
        pool = pod["metadata"]["labels"].get("noetl.io/pool")
        user = f"worker_{pool}" if pool else {"bootstrap": "admin", "test": "admin"}.get(component, component)
        assert keys == ["noetl.nk" if mode == "shared" else f"{user}.creds" if mode == "jwt" else f"{user}.nk"], name


def _secrets(pod: Document) -> list[dict[str, Any]]:
    plain = [volume["secret"] for volume in pod["spec"]["volumes"] if "secret" in volume]
    parts = [part for volume in pod["spec"]["volumes"] for part in volume.get("projected", {}).get("sources", ())]
    return plain + [part["secret"] for part in parts if "secret" in part]


@every_values
def test_selectors_hold_what_never_changes(values: Path) -> None:
    for each in documents(values):
        if each["kind"] in ("Deployment", "StatefulSet"):
            selector = each["spec"]["selector"]["matchLabels"]
            assert selector.items() <= each["spec"]["template"]["metadata"]["labels"].items()
            assert "helm.sh/chart" not in selector
            assert "app.kubernetes.io/version" not in selector


@every_values
def test_a_port_says_its_protocol(values: Path) -> None:
    """It is a part of a port's key: an API server that knows no default of it refuses the server-side apply of Helm 4
    without one."""
    found = documents(values)
    ports = [port for each in of_kind(found, "Service").values() for port in each["spec"]["ports"]]
    containers = [each for pod in pods(found).values() for each in pod["spec"]["containers"]]
    ports += [port for each in containers for port in each.get("ports", ())]
    assert ports
    assert [port for port in ports if "protocol" not in port] == []


def test_the_version_stands_in_one_place() -> None:
    """The tag of the image is the chart's appVersion, which is the project's."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == project()["version"]
    images = {container["image"] for pod in pods(documents()).values() for container in pod["spec"]["containers"]}
    assert f"noetl:{project()['version']}" in images


def test_the_licence_is_the_one_the_project_names() -> None:
    assert project()["license"] == "Apache-2.0"
    assert "Apache License\n                           Version 2.0" in (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_what_the_bundled_broker_may_write_fits_its_volume() -> None:
    for size, most in (("5Gi", 4831838208), ("1Ti", 989560464993), ("10G", 9000000000)):
        config = of_kind(documents(None, "helm3", f"nats.bundled.storage.size={size}"), "ConfigMap")
        assert f"max_file_store: {most}\n" in config[f"{RELEASE}-noetl-nats"]["data"]["nats.conf"]


@pytest.mark.parametrize("name", ["1abc", "a.b"])
def test_a_release_whose_name_no_service_can_have_is_refused_with_the_fix(name: str) -> None:
    done = run("helm3", "template", name, str(CHART))
    assert "fullnameOverride" in done.stderr
    assert run("helm3", "template", name, str(CHART), "--set", "fullnameOverride=noetl").returncode == 0


def test_the_test_of_a_release_runs_in_a_pool_it_has() -> None:
    found = of_kind(documents(CHART / "ci/plain-values.yaml"), "ConfigMap")
    (source,) = (each["data"]["test.yaml"] for name, each in found.items() if name.endswith("-test"))
    assert "pool: other" in source
