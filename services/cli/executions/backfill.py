"""Starts the executions of a schedule for times that are past: one for each time, under the id that the schedule itself
would have given it. So a time that has been fired, by the schedule or by an earlier backfill, is not fired again."""

from collections.abc import AsyncIterator
from datetime import date, datetime, timedelta
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from services.cli.console.exits import USAGE, CliError
from services.cli.executions import requests
from services.cli.stack import context
from shared.bus.ports import Bus
from shared.dsl.documents.schedules import Schedule
from shared.engine.automation import calendar
from shared.engine.automation import schedules as automation_schedules
from shared.errors import TemplateError
from shared.events import subjects
from shared.events.stamp import stamp

if TYPE_CHECKING:
    from shared.runtime.service.settings import Settings

MOST = 1000  # times of one call


def instant(schedule: Schedule, text: str, *, last: bool) -> float:
    """A time without a zone is of the schedule's; a day alone is its first second, or with `last` its last."""
    try:
        if len(text.strip()) == 10:
            day = datetime.combine(date.fromisoformat(text.strip()), datetime.min.time(), ZoneInfo(schedule.timezone))
            return (day + timedelta(days=1)).timestamp() - 1 if last else day.timestamp()
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise CliError(f"{text!r} is not a time: write 2026-11-16, 2026-11-16T10:00 (in {schedule.timezone}) or "
                       "2026-11-16T10:00:00Z", USAGE) from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=ZoneInfo(schedule.timezone))).timestamp()


def times(schedule: Schedule, since: float, until: float, now: float) -> list[int]:
    """Those of the schedule in between, both ends included; none that is still to come."""
    if since > until:
        raise CliError("--from is after --to", USAGE)
    until = min(until, now)
    found = takewhile(lambda at: at <= until, calendar.upcoming(schedule, int(since) - (since == int(since))))
    wanted = list(islice(found, MOST + 1))
    if len(wanted) > MOST:
        first = calendar.local(schedule, wanted[MOST]).isoformat()
        raise CliError(f"over {MOST} times: --to before {first}, and the rest with another call", USAGE)
    return wanted


async def started(
    bus: Bus, settings: "Settings", schedule: Schedule, wanted: list[int], *, dry_run: bool
) -> AsyncIterator[dict[str, Any]]:
    """A row for each time, as it is asked for. Where executions of the schedule must not overlap, one after another."""
    for number, at in enumerate(wanted):
        row = {"time": stamp(at), "local": calendar.local(schedule, at).isoformat(),
               "execution_id": automation_schedules.execution_id(schedule.name, at), "status": "", "why": ""}
        row |= await _start(bus, settings, schedule, at, row["execution_id"], dry_run=dry_run)
        yield row
        if schedule.overlap != "allow" and row["status"] in ("started", "there") and number + 1 < len(wanted):
            await requests.finish_within(bus, row["execution_id"], settings.partitions, None, quiet=True)


async def _start(
    bus: Bus, settings: "Settings", schedule: Schedule, at: int, execution_id: str, *, dry_run: bool
) -> dict[str, str]:
    try:
        request = automation_schedules.request(schedule, at)
        if await requests.is_known(bus, execution_id, settings.partitions):
            return {"status": "there"}
        if dry_run:
            return {"status": "would start"}
        await requests.start(bus, request, context.inbox(settings), settings.partitions, subject=subjects.DERIVED)
    except (TemplateError, CliError) as error:
        return {"status": "failed", "why": str(error)}
    return {"status": "started"}
