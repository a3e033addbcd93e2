"""Who may talk to whom: nothing goes in or out of a Pod of the release but what is listed."""

from pathlib import Path

import pytest

from tests.deploy.helm import CHART, CI_VALUES, RELEASE, documents, of_kind, pods
from tests.deploy.network import Labels, Peer, Policy, may_hear, may_send

KUBE_API = Peer(address="10.96.0.1")
SOMEWHERE = Peer(address="93.184.216.34")
METADATA = Peer(address="169.254.169.254")
DNS = Peer(namespace={"kubernetes.io/metadata.name": "kube-system"})
MONITORING = Peer(namespace={"kubernetes.io/metadata.name": "monitoring"})
NEIGHBOUR = Peer(labels={"app": "other"})
OWN_BROKER = CHART / "ci/own-broker-values.yaml"


def labels(component: str) -> Labels:
    return {"app.kubernetes.io/name": "noetl", "app.kubernetes.io/instance": RELEASE,
            "app.kubernetes.io/component": component}


def policies(values: Path | None = None) -> list[Policy]:
    return list(of_kind(documents(values), "NetworkPolicy").values())


NATS = Peer(labels=labels("nats"))


@pytest.mark.parametrize("values", [each for each in CI_VALUES if "plain" not in each.name], ids=lambda path: path.name)
def test_every_pod_is_denied_what_no_list_names(values: Path) -> None:
    denied = of_kind(documents(values), "NetworkPolicy")[f"{RELEASE}-noetl-default-deny"]["spec"]
    assert denied["policyTypes"] == ["Ingress", "Egress"]
    assert not denied.get("egress")
    assert not denied.get("ingress")
    for pod in pods(documents(values)).values():
        assert denied["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    for each in policies(values):
        assert all(rule for rule in each["spec"].get("egress", ())), "an empty rule is everything"
        assert all(rule.get("from") for rule in each["spec"].get("ingress", ())), "from anywhere"


@pytest.mark.parametrize(("who", "peer", "port", "lets"), [
    ("router", NATS, 4222, True),
    ("router", NATS, 8222, False),
    ("router", SOMEWHERE, 443, False),
    ("router", KUBE_API, 443, False),
    ("router", NEIGHBOUR, 4222, False),
    ("scheduler", NATS, 4222, True),
    ("scheduler", SOMEWHERE, 443, False),
    ("worker", NATS, 4222, True),
    ("worker", SOMEWHERE, 443, True),
    ("worker", METADATA, 80, False),
    ("worker", KUBE_API, 443, False),
    ("pools", KUBE_API, 443, True),
    ("pools", NATS, 4222, True),
    ("pools", SOMEWHERE, 80, False),
    ("keys", KUBE_API, 6443, True),
    ("keys", NATS, 4222, False),
    ("accounts", KUBE_API, 443, True),
    ("accounts", NATS, 4222, True),
    ("accounts", SOMEWHERE, 80, False),
    ("bootstrap", NATS, 4222, True),
    ("bootstrap", KUBE_API, 443, False),
    ("test", NATS, 4222, True),
    ("nats", SOMEWHERE, 443, False),
])
def test_what_a_pod_reaches(who: str, peer: Peer, port: int, lets: bool) -> None:
    assert may_send(policies(), labels(who), peer, port) is lets


@pytest.mark.parametrize("who", ["router", "scheduler", "worker", "pools", "bootstrap", "test"])
def test_names_are_looked_up(who: str) -> None:
    assert may_send(policies(), labels(who), DNS, 53, "UDP")
    assert not may_send(policies(), labels(who), SOMEWHERE, 53, "UDP") or who == "worker"


@pytest.mark.parametrize(("who", "peer", "port", "lets"), [
    ("nats", Peer(labels=labels("router")), 4222, True),
    ("nats", NEIGHBOUR, 4222, False),
    ("nats", Peer(labels=labels("router")), 8222, False),
    ("pools", Peer(namespace={"kubernetes.io/metadata.name": "keda"}), 8080, True),
    ("pools", NEIGHBOUR, 8080, False),
    ("router", NEIGHBOUR, 8080, False),
    ("worker", NEIGHBOUR, 8080, False),
    *((who, MONITORING, 8080, True) for who in ("router", "scheduler", "projector", "pools", "worker")),
    *((who, MONITORING, port, False) for who in ("router", "worker") for port in (4222, 22)),
    *((who, MONITORING, 8080, False) for who in ("nats", "keys", "accounts", "bootstrap", "test")),
])
def test_who_reaches_a_pod(who: str, peer: Peer, port: int, lets: bool) -> None:
    assert may_hear(policies(), labels(who), peer, port) is lets


def test_a_broker_and_a_database_of_others_are_reached_where_the_values_say() -> None:
    found = policies(OWN_BROKER)
    broker = Peer(namespace={"kubernetes.io/metadata.name": "nats"})
    assert may_send(found, labels("router"), broker, 4222)
    assert not may_send(found, labels("router"), SOMEWHERE, 4222)
    database = Peer(labels={"cnpg.io/cluster": "noetl-postgres"})
    assert may_send(found, labels("projector"), database, 5432)
    assert not may_send(found, labels("router"), database, 5432)
    assert not may_send(found, labels("projector"), SOMEWHERE, 5432)


def rules(component: str, way: str, *sets: str) -> list[dict[str, object]]:
    found = of_kind(documents(None, "helm3", *sets), "NetworkPolicy")[f"{RELEASE}-noetl-{component}"]["spec"]
    assert way.capitalize() in found["policyTypes"]
    return list(found.get(way) or ())


def test_nobody_is_not_everybody() -> None:
    assert rules("pools", "ingress", "networkPolicy.demand=null") == []
    ports = [rule["ports"] for rule in rules("broker", "egress", "networkPolicy.dns=null")]
    assert ports == [[{"protocol": "TCP", "port": 4222}]]


@pytest.mark.parametrize(("url", "ports"), [
    ("nats://x:14222", [14222]), ("nats://x", [4222]), ("wss://x", [443]), ("ws://x/", [80]),
    ("nats://a:4222\\,tls://b:5222\\,nats://c:4222", [4222, 5222]),
])
def test_the_broker_is_reached_at_the_ports_of_its_url(url: str, ports: list[int]) -> None:
    found = rules("broker", "egress", "nats.bundled.enabled=false", f"nats.url={url}")[0]["ports"]
    assert found == [{"protocol": "TCP", "port": port} for port in ports]
