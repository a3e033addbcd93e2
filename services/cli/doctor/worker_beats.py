"""Who is there: routers and schedulers say so once a second."""

import asyncio

import msgspec

from shared.bus.membership import BEAT_S, Notice
from shared.bus.ports import Bus
from shared.events import subjects

LISTEN_S = 1.5 * BEAT_S


async def members(bus: Bus, within_s: float = LISTEN_S) -> dict[str, set[str]]:
    """Instances of each service, by listening only: a word of ours would make us one of them."""
    found: dict[str, set[str]] = {}
    inbox = await bus.subscribe(f"{subjects.MEMBERS}.*")
    try:
        async with asyncio.timeout(within_s):
            while True:
                message = await inbox.message()
                notice = msgspec.json.decode(message.data, type=Notice)
                instances = found.setdefault(message.subject.removeprefix(f"{subjects.MEMBERS}."), set())
                (instances.discard if notice.kind == "bye" else instances.add)(notice.instance)
    except TimeoutError:
        return {service: instances for service, instances in found.items() if instances}
    finally:
        await inbox.close()
