"""Who has set an execution aside, as people read it: `why`, `get`, `describe`."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from shared.answers.why.facts import Reason
from shared.answers.why.remedies import remedy
from shared.bus.ports import Bus
from shared.runtime.control import set_aside
from shared.runtime.control.set_aside import Aside


async def shown(bus: Bus, execution_id: str) -> list[dict[str, Any]]:
    """As JSON has it."""
    return [msgspec.to_builtins(each) for each in await set_aside.read(bus, execution_id)]


def sentence(each: Mapping[str, Any]) -> str:
    return f"set aside by the {each['service']}: {each['reason']} (as of record {each['seq']}, {each['at']})"


def reasons(found: Iterable[Aside], path: str) -> list[Reason]:
    return [
        Reason(
            f"{each.service}.aside", "blocked", sentence(msgspec.to_builtins(each)),
            values={"service": each.service, "reason": each.reason, "record": each.seq}, since=each.at,
            remedy=remedy("wait_for_start", service=each.service, path=path or "PATH"),
        )
        for each in found
    ]
