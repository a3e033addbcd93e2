"""What `auth` of a task stands for."""

from typing import Any

import msgspec
import pytest

from services.worker.credentials import NoCredential, resolve
from shared.bus import topology
from shared.bus.memory.broker import MemoryBroker
from shared.bus.memory.bus import MemoryBus
from shared.engine.pipeline.rendering import Rendered
from shared.runtime.service.clock import SystemClock
from shared.tools import registry
from shared.tools.scripts import loader as script

STORED = {"pg": {"dsn": "postgres://h/d"}, "path/to/it": {"token": "t"}, "keys": {"key_id": "k", "type": "gcs"}}


@pytest.fixture
async def bus() -> MemoryBus:
    broker = MemoryBroker(SystemClock())
    broker.ensure(topology.wanted(partitions=1))
    bus = MemoryBus(broker)
    for name, value in STORED.items():
        await bus.kv_put(topology.KEYCHAIN, name, msgspec.json.encode(value))
    return bus


@pytest.mark.parametrize(("auth", "found"), [
    (None, None), ({}, None), ("pg", STORED["pg"]), ("path/to/it", STORED["path/to/it"]),
    ({"token": "given"}, {"token": "given"}),
    ({"db": {"credential": "pg", "type": "postgres"}, "files": {"credential": "keys", "type": "s3", "scope": "s3://b"}},
     {"db": {"dsn": "postgres://h/d", "type": "postgres"},
      "files": {"key_id": "k", "type": "s3", "scope": "s3://b"}}),
    ({"db": {"credential": {"dsn": "x"}}}, {"db": {"dsn": "x"}}),
])
async def test_auth_is_a_name_a_credential_or_several_by_alias(bus: MemoryBus, auth: Any, found: Any) -> None:
    assert await resolve(bus, auth) == found


@pytest.mark.parametrize("auth", ["gone", "not a name", "", 3, ["pg"], {"db": {"credential": "gone"}}])
async def test_what_names_no_credential_is_told(bus: MemoryBus, auth: Any) -> None:
    with pytest.raises(NoCredential):
        await resolve(bus, auth)


@pytest.mark.parametrize("kind", ["python", "postgres", "duckdb"])
def test_the_credential_of_a_script_reaches_the_tool_apart_from_its_keys(kind: str) -> None:
    config = {"script": {"uri": "{{ u }}", "source": {"type": "s3", "auth": "{{ a }}", "region": "r"}}}
    found = Rendered(config, registry.specs()[kind].keys, {"u": "s3://b/k", "a": "aws"})
    assert found.credentials == {script.CREDENTIAL: "aws"}
    assert found.config == {"script": {"uri": "s3://b/k", "source": {"type": "s3", "region": "r"}}}
