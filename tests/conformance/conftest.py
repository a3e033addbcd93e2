"""One stack and one paged API per module."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.conformance.stand.api import Api
from tests.conformance.stand.lab import Lab, opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lab() -> AsyncIterator[Lab]:
    async with opened() as one:
        yield one


@pytest_asyncio.fixture(loop_scope="module")
async def api() -> AsyncIterator[Api]:
    one = Api()
    await one.start()
    yield one
    await one.close()
