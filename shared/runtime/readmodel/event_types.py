"""What the view `noetl.event` knows of the types of events, written into its table from the types themselves."""

from typing import Any, get_args

import asyncpg

from shared.answers.readmodel.rows import json_text
from shared.events.event_types.status import VARIANTS
from shared.events.model import Event
from shared.runtime.readmodel.statements import SQL


async def fill(connection: asyncpg.Connection) -> None:
    for values in rows():
        await connection.execute(SQL["fill_event_types"], *values)


def rows() -> list[tuple[Any, ...]]:
    """Type, entity, status, and where what tells another status is, with these statuses."""
    found = []
    for kind in get_args(Event):
        variants = VARIANTS.get(kind)
        at = (None, None) if variants is None else (list(variants.path), json_text(dict(variants.statuses)))
        found.append((str(kind.__struct_config__.tag), kind.entity, kind.state, *at))
    return found
