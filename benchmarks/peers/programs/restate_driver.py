"""Restate: calls handlers through the ingress, which answers when they have ended."""

import os
from typing import Any

import aiohttp
import uvloop
from harness import drive


async def main() -> None:
    address = os.environ["RESTATE_INGRESS"]
    connector = aiohttp.TCPConnector(limit=int(os.environ.get("RESTATE_CONNECTIONS", "0")), keepalive_timeout=300)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:

        async def execute(name: str, shape: str, argument: Any) -> Any:
            headers = {"idempotency-key": name} if os.environ.get("RESTATE_KEYS") else {}
            async with session.post(f"{address}/Work/{shape}", json=argument, headers=headers) as answer:
                answer.raise_for_status()
                return await answer.json()

        await drive(execute)


uvloop.run(main())
