"""Commands for a real PostgreSQL."""

from typing import Any

import pytest

from tests.support.calls import call


@pytest.fixture
def run(opened, database: str):
    tool = opened("postgres")

    async def one(command: Any, _spec: dict[str, Any] | None = None, **config: Any):
        return await tool.run(call({"command": command, **config}, spec=_spec, auth={"dsn": database}))

    return one
