"""What holds for every test."""

from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

# The same examples each time, however slow the machine is: `python -m tests.property.fuzz` looks for new ones.
settings.register_profile("noetl", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("noetl")


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """`noetlctl`, called in this process, says what is logged and where: the next test does not inherit it."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
