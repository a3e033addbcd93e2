"""`/metrics`: what is promised of every figure, and that the page is there whatever the broker does."""

import asyncio
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from shared.errors import Unavailable
from shared.runtime.service import exposition, metrics
from shared.runtime.service import metric_names as names
from shared.runtime.service.durations import BOUNDS, Durations
from shared.runtime.service.health import Health, endpoint, figures, is_of
from shared.runtime.service.metric_names import METRICS
from shared.runtime.service.metrics import About, Metric, Sample
from tests.support.paths import DOCS

ROW = re.compile(r"^\| `(noetl_\w+)` \| (\w+) \| ([^|]*)\| (.+) \|$", re.MULTILINE)
LABELS = {"name", "pool", "version", "path", "status", "partition", "stage", "kind", "state"}  # each of few values


def test_the_documentation_says_what_the_services_tell() -> None:
    rows = ROW.findall((DOCS / "operations.md").read_text(encoding="utf-8"))
    assert len(rows) == len(METRICS)
    found = {name: (kind, tuple(re.findall(r"`(\w+)`", labels)), text) for name, kind, labels, text in rows}
    assert found == {each.name: (each.kind, each.labels, each.help) for each in METRICS.values()}


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_names_follow_the_custom(metric: Metric) -> None:
    """Base units, `_total` for what only grows, and no label that grows."""
    assert re.fullmatch(r"noetl_[a-z_]+", metric.name)
    assert metric.name.endswith("_total") is (metric.kind == "counter")
    assert not re.search(r"_(ms|millis|minutes|kb|mib|percent)\b", metric.name)
    assert metric.kind != "histogram" or metric.name.endswith("_seconds")
    assert set(metric.labels) <= LABELS
    assert "\n" not in metric.help


def told(*samples: Sample) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(exposition.text(About("router"), samples)):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_a_histogram_is_told_as_prometheus_wants_it() -> None:
    took = Durations()
    for seconds in (0.0004, 0.0005, 0.3, 10_000.0):
        took.add(seconds)
    found = told(Sample(names.DECIDE, took))
    buckets = {dict(labels)["le"]: value for labels, value in found["noetl_decide_seconds_bucket"].items()}
    assert buckets["0.0005"] == 2  # a bound belongs to its own bucket
    assert (buckets["0.25"], buckets["0.5"], buckets[str(BOUNDS[-1])], buckets["+Inf"]) == (2, 3, 3, 4)
    assert found["noetl_decide_seconds_count"] == {(("service", "router"),): 4}
    assert found["noetl_decide_seconds_sum"] == {(("service", "router"),): pytest.approx(10_000.3009)}


def test_labels_that_can_be_invented_do_not_fill_the_page() -> None:
    samples = [Sample(names.HELD, 1, (f"pool-{number}",)) for number in range(metrics.MAX_LABEL_SETS + 7)]
    found = told(*samples)
    assert len(found["noetl_commands_held"]) == metrics.MAX_LABEL_SETS
    assert found["noetl_metrics_left_out"] == {(("service", "router"),): 7}


def test_a_label_says_anything() -> None:
    odd = 'a"b\\c\nd'
    assert told(Sample(names.HELD, 1, (odd,)))["noetl_commands_held"] == {(("pool", odd), ("service", "router")): 1}


def test_what_is_counted_on_meanwhile_is_left_for_the_next_time() -> None:
    health, took = Health(), Durations()
    health.metrics.add(lambda: [Sample(names.DECIDE, took)])
    [before] = health.metrics.samples()
    took.add(1.0)
    assert isinstance(before.value, Durations)
    assert sum(before.value.counts) == 0


async def page(port: int) -> tuple[str, dict[str, float]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = (await asyncio.wait_for(reader.read(), 10)).decode()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition("\r\n\r\n")
    families = text_string_to_metric_families(body)
    return head, {sample.name: sample.value for family in families for sample in family.samples}


async def test_the_page_is_there_before_the_service_is() -> None:
    async with endpoint(Health(), 0, "127.0.0.1") as port:
        head, found = await page(port)
        assert head.startswith("HTTP/1.1 200 OK")
        assert "text/plain; version=0.0.4" in head
        assert found["noetl_ready"] == 0
        assert "process_cpu_seconds_total" in found
        assert (await page(port))[1]["noetl_http_requests_total"] == 1


async def test_a_broker_that_is_silent_or_refuses_takes_nothing_but_its_own_figures() -> None:
    async def silent() -> None:
        await asyncio.sleep(3600)

    async def refuses() -> None:
        raise Unavailable("no connection")

    health = Health()
    is_of(health)
    figures(lambda: [Sample(names.RECORDS_READ, 3)])
    figures(list, silent)
    figures(list, refuses)
    async with endpoint(health, 0, "127.0.0.1") as port:
        began = asyncio.get_running_loop().time()
        assert (await page(port))[1]["noetl_records_read_total"] == 3
        assert asyncio.get_running_loop().time() - began < metrics.ASK_S + 3


async def test_whoever_asks_often_does_not_ask_the_broker_often() -> None:
    asked: list[int] = []

    async def ask() -> None:
        asked.append(1)

    health = Health()
    is_of(health)
    figures(list, ask)
    await asyncio.gather(*(health.exposition() for _ in range(5)))
    assert len(asked) == 1


async def test_a_service_that_begins_again_tells_its_own_figures_once() -> None:
    health = Health()
    for _ in range(2):
        is_of(health)
        figures(lambda: [Sample(names.RECORDS_READ, 1)])
    assert len(health.metrics.samples()) == 1


async def test_addresses_that_are_invented_count_as_one() -> None:
    health = Health()
    for number in range(50):
        health.note(f"/wp-{number}", 404, 0.001)
    health.note("/livez", 200, 0.001)
    assert health.answered == {("other", 404): 50, ("livez", 200): 1}
