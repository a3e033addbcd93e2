"""Words on a subject, which may get lost: whoever hears one acts on it, and nobody answers."""

from collections.abc import Callable

from shared.bus.ports import Bus


async def listen(bus: Bus, subject: str, take: Callable[[bytes], None]) -> None:
    """Gives `take` every word, for ever; cancel to stop."""
    inbox = await bus.subscribe(subject)
    try:
        while True:
            take(await inbox.next())
    finally:
        await inbox.close()
