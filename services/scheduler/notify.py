"""Asks for the playbook that an execution's policy names for its end (`executor.spec.policy.notify`)."""

import msgspec
import structlog

from shared.answers.history.end import End, digest
from shared.bus import dead_letters
from shared.bus.ports import Bus
from shared.dsl.model.edition import plan_name
from shared.dsl.model.plan import Notify
from shared.engine.automation import notify as automation_notify
from shared.errors import Corrupt, Refused, TemplateError
from shared.events import subjects
from shared.events.record import Record
from shared.runtime.stores import catalog
from shared.runtime.stores.plans import Plans

log = structlog.get_logger()
ORIGIN = "notify"


class Notifier:
    def __init__(self, bus: Bus, plans: Plans) -> None:
        self._bus, self._plans = bus, plans

    async def notify(self, first: Record, end: End) -> None:
        """Asked for twice, one is started: its id follows from the execution that has ended."""
        if automation_notify.is_by_end(end.by):
            return
        policy = await self._policy(digest(first), end)
        if policy is None or end.status not in policy.ends:
            return
        try:
            asked = automation_notify.request(policy, msgspec.to_builtins(end))
            await self._bus.append(subjects.DERIVED, msgspec.json.encode(asked))
        except (TemplateError, Corrupt, Refused) as error:
            log.error("notify.failed", execution_id=end.execution_id, error=str(error))
            place = f"notify of {end.execution_id}"
            await dead_letters.bury(self._bus, ORIGIN, place, str(error), name=end.path, owner=end.path)
        else:
            log.info("notify.asked", execution_id=end.execution_id, started=asked.execution_id)

    async def _policy(self, plan: str, end: End) -> Notify | None:
        """Of the plan it went by; one that was refused before it had a plan, of the playbook that it named."""
        try:
            if not plan:
                plan = plan_name((await catalog.find(self._bus, end.path, end.version)).digest)
            return (await self._plans.load(plan)).notify
        except (catalog.NotRegistered, Corrupt) as error:
            log.info("notify.unknown", execution_id=end.execution_id, reason=str(error))
            return None
