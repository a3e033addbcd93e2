"""Asks a stack to start an execution, and waits for the router's word or for the end."""

import asyncio
from contextlib import aclosing
from typing import Any

import msgspec

from services.cli.console import exits, interruption
from services.cli.console.exits import CliError
from services.cli.executions import display
from services.cli.executions.children import Family
from services.cli.executions.display import Display
from services.cli.executions.records import follow, history
from shared.answers.history.summary import Summary
from shared.bus.ports import Bus, Inbox
from shared.errors import Unavailable
from shared.events import subjects
from shared.events.headers import MESSAGE_ID, REPLY_TO
from shared.events.model import ExecutionRequested
from shared.events.request import MAX_REQUEST_BYTES, Request, derive_id
from shared.runtime.stores.execution_status import standing

ANSWER_S = 15.0
LOOK_S = 0.5


class Answer(msgspec.Struct, frozen=True):
    """What the router says to a request."""

    execution_id: str = ""
    status: str = ""
    error: Any = None


class Unanswered(CliError):
    """Nobody has said what became of a request. It is known which execution it is: the same again starts no other."""

    def __init__(self, what: str, execution_id: str, key: str) -> None:
        known = f"; its execution is {execution_id}" if execution_id else ""
        again = f", and the same request again is --id {key}" if key else ""
        super().__init__(what + known + again)
        self.execution_id = execution_id


async def start(
    bus: Bus, request: Request, inbox_name: str, partitions: int, key: str = "", subject: str = subjects.EXECUTE
) -> Answer:
    """Publishes the request and waits for the router; the same `key` again is the same request."""
    data = encoded(request)
    execution_id = request.execution_id or (derive_id("id", key) if key else "")
    if execution_id and await is_known(bus, execution_id, partitions):
        return Answer(execution_id, "duplicate")
    inbox = await bus.subscribe(inbox_name)
    headers = {REPLY_TO: inbox_name, **({MESSAGE_ID: key} if key else {})}
    try:
        await bus.append(subject, data, headers=headers)
        answer = await _answer(bus, inbox, execution_id, partitions, key)
    except Unavailable as error:
        raise Unanswered(f"{error}: whether the request is stored is not known", execution_id, key) from None
    finally:
        await inbox.close()
    if answer.status == "failed":
        raise CliError(f"the request was refused: {_reason(answer.error)}")
    return answer


def encoded(request: Request) -> bytes:
    data = msgspec.json.encode(request)
    if len(data) > MAX_REQUEST_BYTES:
        raise CliError(f"the request has {len(data)} bytes; the limit is {MAX_REQUEST_BYTES}: pass a reference")
    return data


async def _answer(bus: Bus, inbox: Inbox, execution_id: str, partitions: int, key: str) -> Answer:
    """The broker drops a request whose key it has just seen, and then no router answers; the log does."""
    for _ in range(round(ANSWER_S / LOOK_S)):
        try:
            async with asyncio.timeout(LOOK_S):
                return msgspec.json.decode(await inbox.next(), type=Answer)
        except TimeoutError:
            if execution_id and await is_known(bus, execution_id, partitions):
                return Answer(execution_id, "duplicate")
    what = f"no router answered in {ANSWER_S:.0f} s (is one running?); the request is stored"
    raise Unanswered(what, execution_id, key)


async def expect_same(bus: Bus, execution_id: str, partitions: int, asked: Request) -> None:
    """Exit code 8 when the execution that is there already was asked for with something else."""
    for record in await history(bus, execution_id, partitions):
        for event in record.events:
            if isinstance(event, ExecutionRequested):
                given = ((event.path, asked.path), (event.version, asked.version), (event.payload, asked.payload))
                other = [name for name, (one, two) in zip(("path", "version", "payload"), given, strict=True)
                         if one != two]
                if other:
                    what = f"execution {execution_id} of this key is there, with another {' and '.join(other)}: take " \
                        f"another --id (`noetlctl describe {execution_id}` shows it)"
                    raise CliError(what, exits.CONFLICT)
                return


async def is_known(bus: Bus, execution_id: str, partitions: int) -> bool:
    return await standing(bus, execution_id, partitions) != "unknown"


def _reason(error: Any) -> str:
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)


async def expect(bus: Bus, execution_id: str, partitions: int) -> str:
    """`running` or `over`; exit code 7 when nobody knows the execution."""
    found = await standing(bus, execution_id, partitions)
    if found == "unknown":
        what = f"no execution {execution_id} in the log (`noetlctl get` lists the recent ones)"
        raise CliError(what, exits.NOT_FOUND)
    return found


async def finish(
    bus: Bus, execution_id: str, partitions: int, display: Display, *, family: bool = False
) -> Summary:
    """Follows the execution to its end; with `family` also those it starts."""
    summary = Summary(execution_id)
    kin = Family(bus, partitions, lambda: display.update(summary, kin.summaries))
    try:
        async with aclosing(follow(bus, execution_id, partitions)) as batches:
            async for batch in batches:
                for record in batch:
                    summary.apply(record)
                if family:
                    kin.meet(summary)
                display.update(summary, kin.summaries)
                if summary.over:
                    break
    finally:
        await kin.close()
        display.close()
    return summary


async def finish_within(
    bus: Bus, execution_id: str, partitions: int, timeout: float | None, *, family: bool = False, quiet: bool = False,
    stands: str = "",
) -> Summary:
    """`finish` with progress on stderr; after `timeout` seconds the command ends and the execution continues. `stands`
    is what else does when the command is interrupted."""
    shown = display.Silent() if quiet else display.choose()
    try:
        async with asyncio.timeout(timeout):
            with interruption.note(f"{stands or f'{execution_id} goes on'} (noetlctl watch {execution_id})"):
                return await finish(bus, execution_id, partitions, shown, family=family)
    except TimeoutError:
        what = f"{execution_id} is not finished within {timeout:g} s; it goes on"
        raise CliError(what, exits.TIMED_OUT) from None
