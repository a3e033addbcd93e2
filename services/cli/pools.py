"""The pools of a running stack: each has a consumer on the queue of commands."""

from services.cli import context
from services.cli.exits import CliError
from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.runtime.settings import Settings


async def on_server(settings: Settings) -> frozenset[str]:
    """Asked of the broker, page by page."""
    async with context.connected(settings) as bus:
        if not isinstance(bus, JetStreamBus):
            raise CliError("the pools are known to a NATS server only")
        found: list[str] = []
        while True:
            page = await bus.requests.api(f"CONSUMER.NAMES.{topology.COMMANDS}", {"offset": len(found)})
            names = page.get("consumers") or []
            found += names
            if not names or len(found) >= page["total"]:
                return frozenset(found)
