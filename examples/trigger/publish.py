"""A shop that publishes its orders: python publish.py SUBJECT JSON. It makes the stream if it is not there."""

import asyncio
import json
import os
import sys
from pathlib import Path

import nats

STACK = json.loads(Path(os.environ.get("NOETL_CONTEXT", ".noetl/context.json")).read_text())


async def main(subject: str, order: str) -> None:
    client = await nats.connect(STACK["nats_url"], user="admin", password=STACK["users"]["admin"])
    stream = client.jetstream()
    await stream.add_stream(name="ORDERS", subjects=["orders.>"])
    if subject:
        await stream.publish(subject, order.encode())
    await client.close()


asyncio.run(main(*(sys.argv[1:] or ("", ""))))
