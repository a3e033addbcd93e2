"""A note from one execution to another: a fact that is appended to the other's log."""

from msgspec import Struct

from shared.events.model import Event


class Note(Struct, frozen=True):
    """`source` names the fact: written twice, it is the same."""

    execution_id: str
    source: str
    event: Event
