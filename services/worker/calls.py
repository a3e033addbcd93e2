"""A tool's call, made of a task and the names its templates see: rendered, with its credentials."""

from contextlib import suppress
from typing import Any

from services.worker import credentials
from shared.bus.ports import Bus
from shared.dsl.names import names_used
from shared.dsl.plan import Plan, Task
from shared.engine import calling
from shared.tools.contract import Call
from shared.tools.open import Tools


async def prepare(
    bus: Bus, tools: Tools, plan: Plan, task: Task, names: dict[str, Any], key: str, left: float
) -> Call:
    """Raises TemplateError and NoCredential. `key` names the attempt, `left` is the time it has."""
    secrets: dict[str, Any] = {}
    if task.config and "keychain" in names_used(task.config).names:
        secrets = await _keychain(bus, plan)
        names = {**names, "keychain": secrets}
    asked = calling.rendered(task, tools.spec(task.kind).keys, names)
    auth = await credentials.resolve(bus, asked.auth) if asked.auth is not None else None
    others = {path: await credentials.resolve(bus, each) or {} for path, each in asked.credentials.items()}
    return Call(asked.config, asked.spec, auth, key, left, secrets, others)


async def _keychain(bus: Bus, plan: Plan) -> dict[str, Any]:
    """The declared credentials that are stored; using one that is not is the template's error."""
    found: dict[str, Any] = {}
    for entry in plan.keychain:
        with suppress(credentials.NoCredential):
            stored = entry.get("credential") or entry["name"]
            found[entry["name"]] = await credentials.find(bus, stored)
    return found
