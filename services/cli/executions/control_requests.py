"""What the commands about executions that are there share: a request about one, and the router's word."""

import asyncio
import getpass
import socket
import uuid
from typing import TYPE_CHECKING, Any

from services.cli.console import exits
from services.cli.console.exits import CliError
from services.cli.stack import context
from shared.events.headers import MESSAGE_ID, REPLY_TO

if TYPE_CHECKING:
    from shared.bus.ports import Bus
    from shared.events.request import Control
    from shared.runtime.service.settings import Settings

ANSWER_S = 20.0


def me() -> str:
    """Who asks, as the log will say."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):
        return socket.gethostname()


async def send(bus: "Bus", settings: "Settings", subject: str, asked: "Control") -> str:
    """The execution the answer is about; CliError when it is not known or not in the state for it, or when the
    router refuses."""
    import msgspec

    from services.cli.executions.requests import Answer

    await check(bus, settings, subject, asked.execution_id)
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
        await check(bus, settings, subject, asked.execution_id)  # it may have ended meanwhile
        raise CliError(f"refused: {_reason(answer.error)}")
    return answer.execution_id


async def check(bus: "Bus", settings: "Settings", subject: str, execution_id: str) -> None:
    """A rerun needs an execution that is over, everything else one that is not."""
    from services.cli.executions import requests
    from shared.events import subjects

    standing = await requests.expect(bus, execution_id, settings.partitions)
    if subject == subjects.RERUN and standing != "over":
        raise CliError(f"execution {execution_id} still runs: cancel it first, or wait for its end", exits.CONFLICT)
    if subject != subjects.RERUN and standing == "over":
        raise CliError(f"execution {execution_id} is over: there is nothing to {subject.rpartition('.')[2]}",
                       exits.CONFLICT)


def _reason(error: Any) -> str:
    return str(error.get("message", "")) if isinstance(error, dict) else str(error)
