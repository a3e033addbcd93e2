"""Who may do what: every user whose password is known tries what it must and must not be able to do.

A probe writes nothing, whatever the answer: a publish expects a last sequence that no subject has, so where it is
allowed the broker refuses it for that instead.
"""

import re
from typing import Literal

from msgspec import Struct

from services.cli.doctor.finding import Finding, ok, problem, skipped
from services.cli.doctor.target import Patient
from shared.bus import api, topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.kv import stream_of
from shared.bus.permissions import worker_user
from shared.errors import Conflict, NoetlError, Refused
from shared.events import subjects
from shared.events.beat import PROBE
from shared.runtime.service.login import trusted

NEVER = 2**53 - 1  # a last sequence that no subject has
WHO = PROBE
SHOWN = 4
LEASED = (subjects.WORKER, subjects.ITERATION, subjects.WAITING)
Verdict = Literal["allowed", "refused", "unclear"]
_PERMISSION = re.compile("not allowed to")


class Probe(Struct, frozen=True):
    user: str
    subject: str
    may: bool


class Seen(Struct, frozen=True):
    probe: Probe
    verdict: Verdict
    said: str = ""


def probes(pools: tuple[str, ...]) -> list[Probe]:
    """A short list of `shared/bus/permissions.py`: what each role lives by, and what would break a promise."""
    keychain = api.subject(api.direct_get(stream_of(topology.KEYCHAIN), subjects.key(topology.KEYCHAIN, WHO)))
    queue = subjects.command(pools[0], WHO, "r")
    wanted: list[tuple[str, list[str], list[str]]] = [
        ("router", [_event("router"), _event("control")],
         [_event("scheduler"), *_events(pools[0]), subjects.CHILD, subjects.DERIVED, queue, keychain]),
        ("scheduler", [_event("scheduler"), queue], [_event("router"), *_events(pools[0]), subjects.EXECUTE, keychain]),
        ("projector", [api.subject(api.direct_get(topology.events_stream(0)))],
         [*map(_event, ("router", "scheduler")), *_events(pools[0]), subjects.EXECUTE, subjects.CHILD,
          subjects.DERIVED, keychain,
          _make(topology.events_stream(0))]),
        ("pools", [subjects.key(topology.POOLS, f"status.{WHO}")],
         [_event("router"), *_events(pools[0]), subjects.EXECUTE, queue, keychain,
          subjects.key(topology.POOLS, f"pool.{WHO}"), _make(stream_of(topology.POOLS))]),
    ]
    wanted.append((
        "client", [f"{subjects.API}.{WHO}"],  # no verb: it is answered, and nothing is asked
        [_event("router"), *_events(pools[0]), subjects.EXECUTE, subjects.CHILD, queue, keychain],
    ))
    for pool in pools:
        others = [
            subject for other in pools if other != pool
            for subject in (subjects.key(topology.WORKERS, f"{other}.{WHO}"), *_events(other))
        ]
        wanted.append((
            worker_user(pool),
            [*_events(pool), subjects.key(topology.WORKERS, f"{pool}.{WHO}"), keychain],
            [*map(_event, ("router", "scheduler", "control", *LEASED)), subjects.EXECUTE, subjects.CHILD,
             subjects.DERIVED, subjects.command(pool, WHO, "r"), subjects.key(topology.KEYCHAIN, WHO), *others],
        ))
    return [
        Probe(user, subject, may)
        for user, may_do, may_not in wanted
        for may, listed in ((True, may_do), (False, may_not))
        for subject in listed
    ]


def _event(writer: str, pool: str = "") -> str:
    return subjects.event(0, WHO, writer, pool)


def _events(pool: str) -> list[str]:
    return [_event(writer, pool) for writer in LEASED]


def _make(stream: str) -> str:
    """A consumer, which could be sent to any subject. Without a body the broker makes none."""
    return api.subject(api.consumer_create(stream, WHO))


async def look(patient: Patient) -> list[Finding]:
    known = [probe for probe in probes(patient.settings.pools) if probe.user in patient.users]
    if not known:
        fix = "give the context file of `noetlctl up`; `noetlctl admin nats-auth show USER` says what each may do"
        return [skipped("permissions", "the passwords of the services are not known here", fix)]
    seen: list[Seen] = []
    for user in dict.fromkeys(probe.user for probe in known):
        seen += await _as(patient, user, [probe for probe in known if probe.user == user])
    return [judge(seen)]


async def _as(patient: Patient, user: str, asked: list[Probe]) -> list[Seen]:
    try:
        bus = await connect(
            patient.settings.nats_url, user=user, password=patient.users[user], name="noetl-doctor",
            inbox_prefix=subjects.inbox_prefix(user), files=trusted(patient.settings),
        )
    except NoetlError as error:
        return [Seen(probe, "unclear", str(error)) for probe in asked]
    try:
        return [Seen(probe, *await _try(bus, probe.subject)) for probe in asked]
    finally:
        await bus.close()


async def _try(bus: JetStreamBus, subject: str) -> tuple[Verdict, str]:
    try:
        if subject.startswith((api.PREFIX, f"{subjects.API}.")):
            await bus.requests.one(subject)
        else:
            await bus.append(subject, b"{}", expected=NEVER)
    except Conflict:
        return "allowed", ""
    except Refused as error:
        return ("refused" if _PERMISSION.search(str(error)) else "unclear"), str(error)
    except NoetlError as error:
        return "unclear", str(error)
    return "allowed", ""


def judge(seen: list[Seen]) -> Finding:
    name = "permissions"
    users = len({each.probe.user for each in seen})
    wrong = [_text(each) for each in seen if each.verdict != ("allowed" if each.probe.may else "refused")]
    if not wrong:
        return ok(name, f"{users} users may do what they must and nothing else ({len(seen)} probes)")
    why = "who may write what is what keeps a worker from starting steps and everyone from the credentials"
    fix = "give the server the accounts and users of `noetlctl admin nats-auth ensure`"
    more = f" and {len(wrong) - SHOWN} more" if wrong[SHOWN:] else ""
    return problem(name, "; ".join(wrong[:SHOWN]) + more, why, fix)


def _text(each: Seen) -> str:
    match each.verdict, each.probe.may:
        case "unclear", _:
            return f"{each.probe.user} on {each.probe.subject}: {each.said}"
        case _, True:
            return f"{each.probe.user} may not use {each.probe.subject}"
        case _:
            return f"{each.probe.user} may use {each.probe.subject}"
