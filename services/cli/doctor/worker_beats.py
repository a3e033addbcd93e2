"""Who is there: routers and schedulers say so once a second."""

import asyncio

from shared.bus.membership import BEAT_S, Notice, decode
from shared.bus.ports import Bus
from shared.errors import Corrupt
from shared.events import subjects

LISTEN_S = 1.5 * BEAT_S


async def members(bus: Bus, within_s: float = LISTEN_S) -> dict[str, dict[str, Notice]]:
    """What each instance of each service says, by listening only: a word of ours would make us one of them."""
    found: dict[str, dict[str, Notice]] = {}
    inbox = await bus.subscribe(f"{subjects.MEMBERS}.*")
    try:
        async with asyncio.timeout(within_s):
            while True:
                message = await inbox.message()
                try:
                    notice = decode(message.data)
                except Corrupt:
                    continue  # nobody's
                instances = found.setdefault(message.subject.removeprefix(f"{subjects.MEMBERS}."), {})
                instances[notice.instance] = notice
                if notice.kind == "bye":
                    del instances[notice.instance]
    except TimeoutError:
        return {service: instances for service, instances in found.items() if instances}
    finally:
        await inbox.close()
