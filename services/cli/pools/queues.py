"""The pools of a running stack: each has a consumer on the queue of commands, and what it provides in a document."""

from typing import Any

from services.cli.console.exits import CliError
from services.cli.stack import context
from shared.bus import api, topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.ports import Bus
from shared.runtime.service.settings import Settings
from shared.runtime.stores import pools


async def on_server(settings: Settings) -> tuple[dict[str, frozenset[str]], list[str]]:
    """What each pool provides, by name; the names of credentials."""
    async with context.connected(settings) as bus:
        documents = {name: frozenset(pools.parse(e).provides) for name, e in (await pools.everything(bus)).items()}
        there = {**dict.fromkeys(await queues(bus), frozenset[str]()), **documents}
        return there, sorted(await bus.kv_all(topology.KEYCHAIN))


async def queues(bus: Bus) -> dict[str, tuple[int, int]]:
    """Each pool, how many commands wait for its workers and how many they have. Asked of the broker, page by page."""
    if not isinstance(bus, JetStreamBus):
        raise CliError("the pools are known to a NATS server only")
    found: list[dict[str, Any]] = []
    while True:
        page = await bus.requests.api(api.consumer_list(topology.COMMANDS), {"offset": len(found)})
        consumers = page.get("consumers") or []
        found += consumers
        if not consumers or len(found) >= page["total"]:
            return {each["name"]: (each["num_pending"], each["num_ack_pending"]) for each in found}
