"""Figures as Prometheus reads them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from shared.runtime.service.durations import Durations
from shared.runtime.service.metrics import MAX_LABEL_SETS, About, Metric, Sample

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LEFT_OUT = Metric("noetl_metrics_left_out", "gauge", "Sets of labels that were too many to be told")


def text(about: About, samples: Iterable[Sample]) -> str:
    """Takes a while: to be called in a thread. The figures of the process itself (`process_…`) come with it."""
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest  # late: it takes a while too

    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    registry.register(_Told(about, list(samples)))
    return generate_latest(registry).decode()


class _Told:
    def __init__(self, about: About, samples: Sequence[Sample]) -> None:
        self._about, self._samples = about, samples

    def collect(self) -> Iterator["Family"]:
        found: dict[Metric, dict[tuple[str, ...], float | Durations]] = {}
        left_out = 0
        for sample in self._samples:
            told = found.setdefault(sample.metric, {})
            if len(told) < MAX_LABEL_SETS:
                told[sample.labels] = sample.value
            else:
                left_out += 1
        found[LEFT_OUT] = {(): left_out}
        for metric, values in found.items():
            yield self._family(metric, values)

    def _family(self, metric: Metric, values: dict[tuple[str, ...], float | Durations]) -> "Family":
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        labels = ("service", *metric.labels)
        if metric.kind == "histogram":
            histogram = HistogramMetricFamily(metric.name, metric.help, labels=labels)
            for given, value in values.items():
                assert isinstance(value, Durations)
                histogram.add_metric((self._about.service, *given), value.up_to(), value.total)
            return histogram
        plain = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        family = plain(metric.name, metric.help, labels=labels)
        for given, value in values.items():
            assert not isinstance(value, Durations)
            family.add_metric((self._about.service, *given), value)
        return family
