"""What nats-py alone would load is loaded when it is used."""

import subprocess
import sys

from tests.support.paths import ROOT

PROGRAM = """
import asyncio, sys
import shared.bus.jetstream
assert "aiohttp" not in sys.modules
from nats.aio.transport import WebSocketTransport

async def use():
    transport = WebSocketTransport()
    await transport._client.close()

asyncio.run(use())
import aiohttp.web
assert aiohttp.ClientSession.__module__ == "aiohttp.client"
"""


def test_a_bus_is_imported_without_the_library_of_web_sockets_which_is_there_all_the_same() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True,
                          timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
