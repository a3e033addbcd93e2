"""Dashboard and alerts: they ask for what the services tell, and the chart brings them as they are."""

import json
import re

import pytest
import yaml

from shared.runtime.service.metric_names import METRICS
from tests.deploy.helm import CHART, RELEASE, Document, documents, of_kind, pods
from tests.deploy.metrics import OBSERVABILITY, expressions, grouped, named, rules, selected
from tests.deploy.network import selects
from tests.support.paths import DOCS

FULL = f"{RELEASE}-noetl"
WATCHED = CHART / "ci/own-broker-values.yaml"
TARGET = {"job", "instance"}  # labels that a Prometheus gives
EXPRESSIONS = expressions()
KINDS = ("PodMonitor", "PrometheusRule")


def family(name: str) -> str:
    """Of a series: its metric."""
    bare = re.sub(r"_(bucket|count|sum)$", "", name)
    return bare if bare in METRICS and METRICS[bare].kind == "histogram" else name


@pytest.mark.parametrize("whose", EXPRESSIONS)
def test_every_metric_that_is_asked_for_is_told_with_its_labels(whose: str) -> None:
    expression = EXPRESSIONS[whose]
    found = {family(each) for each in named(expression)}
    assert found
    ours = {each for each in found if each.startswith("noetl_")}
    assert ours <= METRICS.keys()
    known = {each: {"service", *METRICS[each].labels} for each in ours}
    for metric, label in selected(expression):
        assert label in TARGET | known.get(family(metric), set())
    labels = set().union(*known.values()) if known else set()
    assert grouped(expression) <= labels | TARGET | {"le"}


def test_every_metric_is_on_the_dashboard_or_says_why_not() -> None:
    shown = {family(name) for expression in EXPRESSIONS.values() for name in named(expression)}
    assert METRICS.keys() - shown == {
        "noetl_service_info", "noetl_metrics_left_out", "noetl_pools_leader",  # who it is
        "noetl_http_requests_total", "noetl_http_request_seconds",  # probes
        "noetl_slots", "noetl_slots_taken",  # of one worker; the pool has those of all
    }


def test_every_alert_says_what_to_do_and_is_documented_and_tested() -> None:
    text = (DOCS / "operations.md").read_text(encoding="utf-8")
    tests = yaml.safe_load((OBSERVABILITY / "rules-tests.yaml").read_text(encoding="utf-8"))["tests"]
    tried = {each["alertname"] for test in tests for each in test["alert_rule_test"] if each["exp_alerts"]}
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}
        assert f"| `{rule['alert']}` |" in text
    assert tried == {rule["alert"] for rule in rules()}


def test_nothing_of_it_is_there_unless_it_is_asked_for() -> None:
    found = documents()
    assert not any(of_kind(found, kind) for kind in KINDS)
    assert f"{FULL}-dashboard" not in of_kind(found, "ConfigMap")


def test_the_chart_brings_the_rules_and_the_dashboard_as_they_are() -> None:
    found = documents(WATCHED)
    rule = of_kind(found, "PrometheusRule")[FULL]
    assert rule["spec"] == yaml.safe_load((OBSERVABILITY / "rules.yaml").read_text(encoding="utf-8"))
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    dashboard = of_kind(found, "ConfigMap")[f"{FULL}-dashboard"]
    kept = json.loads((OBSERVABILITY / "dashboard.json").read_text(encoding="utf-8"))
    assert json.loads(dashboard["data"]["noetl.json"]) == kept
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"


def port_of(pod: Document, name: str) -> int | None:
    ports = [port for container in pod["spec"]["containers"] for port in container.get("ports", ())]
    return next((port["containerPort"] for port in ports if port["name"] == name), None)


def test_the_monitor_finds_every_service_and_nothing_else() -> None:
    found = documents(WATCHED)
    monitor = of_kind(found, "PodMonitor")[FULL]["spec"]
    [asked] = monitor["podMetricsEndpoints"]
    assert (asked["port"], asked["path"], asked["interval"]) == ("health", "/metrics", "30s")
    assert {"targetLabel": "job", "replacement": "noetl"} in asked["relabelings"]
    chosen = {name for name, pod in pods(found).items() if selects(monitor["selector"], pod["metadata"]["labels"])}
    services = {name for name, pod in pods(found).items() if port_of(pod, "health") is not None}
    assert chosen == {name for name in services if not name.endswith("-accounts")}
    assert len(chosen) == 5
