"""What holds for every test."""

import signal
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

from shared.runtime.service import logging
from tests.support.suite.order import ordered

# The same examples each time, however slow the machine is: `python -m tests.property.fuzz` looks for new ones.
settings.register_profile("noetl", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("noetl")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
logging.configure("debug")  # structlog's own way spends seconds on a traceback, with every value in its frames


@pytest.fixture(autouse=True)
def _process_as_before() -> Iterator[None]:
    """`noetlctl`, called in this process, says what is logged and where, and ends deaf to signals: neither the next
    test nor a process that it starts inherits it."""
    logs, handlers = structlog.get_config(), [signal.getsignal(number) for number in SIGNALS]
    yield
    structlog.configure(**logs)
    for number, handler in zip(SIGNALS, handlers, strict=True):
        signal.signal(number, handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    files = list(dict.fromkeys(_file(item) for item in items))
    places = {file: place for place, file in enumerate(ordered(sorted(files)))}
    items.sort(key=lambda item: places[_file(item)])


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
