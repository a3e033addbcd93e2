"""A tool's call: what it is rendered to, with the credentials it names, and what it came to without them."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from services.worker import credentials
from shared.bus.ports import Bus
from shared.dsl.model.plan import Plan
from shared.dsl.templates.evaluate import evaluate
from shared.engine.pipeline import effects as ef
from shared.engine.values.redaction import Secrets
from shared.errors import TemplateError
from shared.events.bounds import MAX_CREDENTIAL_NAME
from shared.events.failure import AUTH
from shared.events.outcome import Outcome, failed
from shared.tools.base.contract import Call, Printing

LARGE_BYTES = 262_144


def call_of(effect: ef.Call | ef.ClaimRows, printing: Printing | None = None) -> Call:
    asked, found = effect.prepared.asked, effect.prepared.found
    return Call(
        asked.config, asked.spec, found.auth, effect.key, effect.limit, effect.prepared.secrets, found.others,
        asked.auth if isinstance(asked.auth, str) else "", printing)


async def find(bus: Bus, effect: ef.FindCredentials) -> ef.Found | Outcome:
    """What the names of a call stand for; the outcome of the call when one is unknown."""
    try:
        auth = await credentials.resolve(bus, effect.auth) if effect.auth is not None else None
        others = {path: await credentials.resolve(bus, each) or {} for path, each in effect.others.items()}
    except credentials.NoCredential as error:
        only = effect.auth if isinstance(effect.auth, str) and not effect.others else ""
        named = {"credential": only[:MAX_CREDENTIAL_NAME]} if only else {}
        return failed(AUTH, str(error), details=named)
    return ef.Found(auth, others)


async def keychain(bus: Bus, plan: Plan, names: Mapping[str, Any]) -> dict[str, Any]:
    """The declared credentials that are stored; using one that is not is the template's error."""
    found: dict[str, Any] = {}
    for entry in plan.keychain:
        with suppress(credentials.NoCredential, TemplateError):
            stored = evaluate(entry.get("credential"), names) or entry["name"]
            found[entry["name"]] = await credentials.find(bus, str(stored))
    return found


async def hidden(secrets: Secrets, outcome: Outcome) -> Outcome:
    """The outcome without them. A large one is looked through in a thread: a second is long for everyone else here."""
    data = secrets.encoded(outcome)
    if len(data) <= LARGE_BYTES:
        return secrets.cleaned(outcome, data)
    return await asyncio.to_thread(secrets.cleaned, outcome, data)
