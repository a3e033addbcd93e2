"""What generated steps and tasks stand for, in the words and lines of the playbook (V10 §15)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from shared.dsl.model.plan import Origin

if TYPE_CHECKING:
    from shared.bus.ports import Bus

Origins = Mapping[str, Origin]


def shown(name: str, origins: Origins) -> str:
    """The name, and for a generated one what it stands for."""
    origin = origins.get(name)
    return name if origin is None else f"{name} ({origin.what}, line {origin.line})"


def where(error: Mapping[str, Any], origins: Origins) -> str:
    """The generated task or step that an error comes from; nothing for one that the author named."""
    found = [name for key in ("task", "step") if isinstance(name := error.get(key), str) and name in origins]
    return f", in {shown(found[0], origins)}" if found else ""


async def of(bus: "Bus", digest: str) -> Origins:
    """Those of a plan that a log names; none when it names none yet, or its source is gone or no longer taken."""
    if not digest:
        return {}
    from shared.dsl.compile import compile_playbook
    from shared.dsl.model.edition import edition_of, source_of
    from shared.runtime.stores import catalog
    from shared.tools import registry

    try:
        source = await catalog.source(bus, source_of(digest))
    except catalog.NotRegistered:
        return {}
    plan = compile_playbook(source, kinds=registry.specs(), edition=edition_of(digest)).plan
    return {} if plan is None else plan.origins
