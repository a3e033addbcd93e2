"""Every check, on one connection. One that cannot be carried out is a problem itself and does not stop the others."""

import asyncio
from collections.abc import Awaitable, Callable

from services.cli.doctor import (
    access,
    clock,
    database,
    disk,
    durability,
    lag,
    members,
    retention,
    set_aside,
    streams,
    versions,
)
from services.cli.doctor.finding import Finding, problem
from services.cli.doctor.silence import explained
from services.cli.doctor.target import Patient, bare
from services.cli.stack.context import Found
from shared.bus.jetstream import JetStreamBus
from shared.errors import NoetlError
from shared.runtime.service.main import connect

Look = Callable[[Patient], Awaitable[list[Finding]]]
AREAS: dict[str, Look] = {
    "broker": versions.look,
    "log": durability.look,
    "streams": streams.look,
    "permissions": access.look,
    "members": members.look,
    "lag": lag.look,
    "executions": set_aside.look,
    "disk": disk.look,
    "postgres": database.look,
    "retention": retention.look,
    "clock": clock.look,
}


async def examine(found: Found, monitor: str) -> list[Finding]:
    settings = found.settings
    try:
        bus = await connect("doctor", settings)
    except NoetlError as error:
        fix = "start it (`noetlctl up`), or set NOETL_NATS_URL, NOETL_NATS_USER and NOETL_NATS_PASSWORD as they are"
        why = "everything goes through the broker"
        return [problem("broker.reachable", f"{bare(settings.nats_url)}: {error}", why, fix)]
    try:
        reached = Finding("broker.reachable", "ok", f"{bare(settings.nats_url)} answers")
        patient = _patient(bus, found, monitor)
        areas = await asyncio.gather(*(_area(name, look, patient) for name, look in AREAS.items()))
        refusal = await patient.files.refusal(bus)
        return [reached, *explained((finding for area in areas for finding in area), refusal)]
    finally:
        await bus.close()


def _patient(bus: JetStreamBus, found: Found, monitor: str) -> Patient:
    context, folder = found.context, found.folder
    if context is None:
        return Patient(bus, found.settings, monitor=monitor)
    return Patient(bus, found.settings, context.users, context.health, folder, monitor)


async def _area(name: str, look: Look, patient: Patient) -> list[Finding]:
    try:
        return await look(patient)
    except NoetlError as error:
        why = "whether all is well there is not known"
        return [problem(name, f"could not be looked at: {error}", why, "see the other findings, and try again")]
