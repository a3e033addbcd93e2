"""The body of an HTTP answer, read whole: what is over a limit is never held."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp


async def whole(answer: "aiohttp.ClientResponse", check: Callable[[int], None]) -> bytes:
    """Decompressed. `check` is called with the size so far, and raises if that is too much."""
    parts: list[bytes] = []
    size = 0
    async for part in answer.content.iter_any():
        size += len(part)
        check(size)
        parts.append(part)
    return b"".join(parts)
