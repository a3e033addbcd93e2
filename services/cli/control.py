"""What `cancel`, `pause`, `resume` and `signal` share: a request about an execution, and the router's word."""

import asyncio
import getpass
import socket
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from services.cli import context, exits
from services.cli.exits import CliError

if TYPE_CHECKING:
    from shared.bus.ports import Bus
    from shared.events.request import Control
    from shared.runtime.settings import Settings

ANSWER_S = 20.0


def me() -> str:
    """Who asks, as the log will say."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):
        return socket.gethostname()


async def ask(subject: str, asked: "Control", context_file: Path | None) -> int:
    from services.cli.output import line

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        await send(bus, settings, subject, asked)
    line({"execution_id": asked.execution_id, "status": "accepted"}, "text")
    return exits.OK


async def send(bus: "Bus", settings: "Settings", subject: str, asked: "Control") -> str:
    """The execution the answer is about; CliError when the router refuses."""
    import msgspec

    from services.cli.requests import MESSAGE_ID, REPLY_TO, Answer, is_known

    if not await is_known(bus, asked.execution_id, settings.partitions):
        raise CliError(f"no execution {asked.execution_id} in the log", exits.NOT_FOUND)
    name = context.inbox(settings)
    inbox = await bus.subscribe(name)
    headers = {REPLY_TO: name, MESSAGE_ID: uuid.uuid4().hex}
    try:
        await bus.append(subject, msgspec.json.encode(asked), headers=headers)
        async with asyncio.timeout(ANSWER_S):
            answer = msgspec.json.decode(await inbox.next(), type=Answer)
    except TimeoutError:
        what = f"no router answered in {ANSWER_S:.0f} s; the request is stored (is a router running?)"
        raise CliError(what) from None
    finally:
        await inbox.close()
    if answer.status == "failed":
        reason = answer.error.get("message", "") if isinstance(answer.error, dict) else answer.error
        raise CliError(f"refused: {reason}")
    return answer.execution_id
