"""What a service tells about itself on `GET /metrics`: which figures there are, and where each is read.

1. *Counted where it happens, as a plain number.* A record, a command or a call costs an addition to an attribute.
   Whatever Prometheus wants is made of it when somebody asks (`exposition.py`), in a thread.
2. *A source reads; it counts nothing.* It is called when somebody asks, in the event loop, and gives samples of what
   is in memory. So the page is there while the broker is away, and before it has come.
3. *What only the broker knows is asked for first* (`ask`), for ASK_S at most and not more often than every KEPT_S. What
   it does not answer is not known, and not told: a figure that is missing is no zero.
4. *Few labels.* Pools, kinds of tools, partitions, states: never an execution, a playbook or whatever else grows. Pools
   can be invented, by a playbook that names one; so a figure has at most MAX_LABEL_SETS sets of labels.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from shared.errors import NoetlError
from shared.runtime.service.durations import Durations

ASK_S = 1.0
KEPT_S = 2.0
MAX_LABEL_SETS = 4096  # as many as there can be partitions
Kind = Literal["counter", "gauge", "histogram"]


class Metric(Struct, frozen=True):
    """`labels` beside `service`, which every one has."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


class Sample(Struct, frozen=True):
    """`labels` are the values of the metric's, in order."""

    metric: Metric
    value: float | Durations
    labels: tuple[str, ...] = ()


class About(Struct, frozen=True):
    service: str = ""
    instance: str = ""
    pool: str = ""  # of a worker
    version: str = ""


Source = Callable[[], Iterable[Sample]]
Ask = Callable[[], Awaitable[None]]


class Metrics:
    """Of one service. Several in one process have one each."""

    def __init__(self) -> None:
        self.about = About()
        self._sources: list[Source] = []
        self._asks: list[Ask] = []
        self._asked_at = float("-inf")
        self._asking = asyncio.Lock()

    def begin(self) -> None:
        """Of a service that begins, or begins again."""
        self._sources.clear()
        self._asks.clear()

    def add(self, source: Source, ask: Ask | None = None) -> None:
        """`ask` brings what the source cannot know by itself. It may take its time, be cut short, and raise."""
        self._sources.append(source)
        if ask is not None:
            self._asks.append(ask)

    async def ask(self) -> None:
        async with self._asking:
            if time.monotonic() - self._asked_at < KEPT_S:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(ASK_S):
                    await asyncio.gather(*(_asked(ask) for ask in self._asks))
            self._asked_at = time.monotonic()

    def samples(self) -> list[Sample]:
        """As they are now: what is counted on while they are written down is left for the next time."""
        return [_kept(sample) for source in self._sources for sample in source()]


def lag(
    records: Metric, seconds: Metric, behind: Mapping[int, tuple[int, float | None]], now: float
) -> Iterator[Sample]:
    """Of each partition: how many records wait, and since when the first of them."""
    for partition, (waiting, since) in behind.items():
        yield Sample(records, waiting, (str(partition),))
        yield Sample(seconds, 0.0 if since is None else max(0.0, now - since), (str(partition),))


def _kept(sample: Sample) -> Sample:
    return replace(sample, value=sample.value.copy()) if isinstance(sample.value, Durations) else sample


async def _asked(ask: Ask) -> None:
    with suppress(NoetlError):  # it is away: what it would have said is left out
        await ask()
