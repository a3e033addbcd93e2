"""A real stack tells every figure that is documented, and every one that the dashboard and the alerts ask for."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.samples import Sample

from shared.runtime.service import targets
from shared.runtime.service.metric_names import METRICS
from tests.deploy.metrics import expressions, named, scraped
from tests.deploy.metrics import targets as addresses
from tests.support.cli import Up, inside
from tests.support.waiting import wait_until

PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: seen, path: seen}
workflow:
  - step: start
    tool: {kind: shell, cmds: ["true"]}
"""
Told = dict[str, list[Sample]]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One whose workers answer, too."""
    folder = tmp_path_factory.mktemp("up")
    kept = {"NOETL_RETENTION": "results=1d,read_model=1d"}
    stack = Up(folder, NOETL_TARGETS=str(folder / ".noetl" / targets.FOLDER), **kept)
    try:
        stack.wait()
        yield stack
    finally:
        stack.stop()


@pytest.fixture(scope="module")
def told(up: Up) -> dict[str, Told]:
    """By instance and name of the series, after an execution has ended."""
    (up.folder / "seen.yaml").write_text(PLAYBOOK)
    for words in (("register", "seen.yaml"), ("execute", "seen", "--wait")):
        done = inside(*words, "--context", str(up.context_file), cwd=up.folder)
        assert done.returncode == 0, done.stderr
    found: dict[str, Told] = {}

    def all_is_told() -> set[str]:
        found.clear()
        for name, address in addresses(up.folder / ".noetl" / targets.FOLDER).items():
            of_one: Told = found.setdefault(name, {})
            for sample in scraped(address):
                of_one.setdefault(sample.name, []).append(sample)
        series = {each for of_one in found.values() for each in of_one}
        return {name for name, metric in METRICS.items() if series.isdisjoint(series_of(name, metric.kind))}

    wait_until(all_is_told, "every metric is told", so=lambda missing: not missing, every_s=1.0)
    return found


def series_of(name: str, kind: str) -> set[str]:
    return {f"{name}_bucket", f"{name}_sum", f"{name}_count"} if kind == "histogram" else {name}


def test_every_series_that_is_asked_for_is_there(told: dict[str, Told]) -> None:
    series = {name for of_one in told.values() for name in of_one} | {"up"}  # which a Prometheus makes itself
    for whose, expression in expressions().items():
        assert named(expression) <= series, whose


def test_nothing_is_told_that_is_not_documented(told: dict[str, Told]) -> None:
    documented = {each for name, metric in METRICS.items() for each in series_of(name, metric.kind)}
    for of_one in told.values():
        for name, samples in of_one.items():
            assert name in documented or name.startswith("process_")
            metric = METRICS.get(re.sub(r"_(bucket|sum|count)$", "", name)) or METRICS.get(name)
            for sample in samples if metric is not None else ():
                assert set(sample.labels) - {"le"} == {"service", *metric.labels}


def test_services_are_told_apart(told: dict[str, Told]) -> None:
    services = {name: {sample.labels["service"] for sample in of_one["noetl_ready"]} for name, of_one in told.items()}
    assert sorted(name for found in services.values() for name in found) == [
        "pools", "projector", "router", "scheduler", "worker"]
    assert all(len(found) == 1 for found in services.values())


def test_figures_are_those_of_what_ran(told: dict[str, Told]) -> None:
    def value(name: str, **labels: str) -> float:
        return sum(sample.value for of_one in told.values() for sample in of_one.get(name, ())
                   if labels.items() <= sample.labels.items())

    assert value("noetl_executions_started_total") == 1
    assert value("noetl_executions_ended_total", status="completed") == 1
    assert value("noetl_task_seconds_count", kind="shell", pool="default") == 1
    assert value("noetl_task_errors_total", kind="shell") == 0
    assert value("noetl_commands_total", pool="default") == value("noetl_commands_taken_total", pool="default") == 1
    assert value("noetl_pool_workers", pool="default") == value("noetl_pool_workers_wanted", pool="default") == 1
    assert value("noetl_records_written_total", service="router") >= 1
    assert value("noetl_ready") == value("noetl_broker_connected") == 5


def test_no_execution_is_in_a_label(told: dict[str, Told], up: Up, tmp_path: Path) -> None:
    shown = inside("get", "executions", "-o", "name", "--context", str(up.context_file), cwd=tmp_path).stdout.split()
    labels = {value for of_one in told.values() for samples in of_one.values() for each in samples
              for value in each.labels.values()}
    assert shown
    assert labels.isdisjoint(shown)
