"""What the shell keeps of one execution."""

from typing import Any, Generic

from shared.engine.core import Core, Outgoing, S
from shared.events.record import Entry
from shared.runtime.control.template_pace import Pace


class Actor(Generic[S]):
    """One execution in one service. `carried` are messages whose decision did not get into the log
    yet, `due` messages of a recovery, `alarm` when it is looked at without new records, `stored` large values already
    written, `folded` the records since the last snapshot, `saved` whether there is one. `whole`: it is folded from the
    log alone, since something went wrong; `aside`: it did so again, and the service does not continue it."""

    __slots__ = (
        "alarm", "aside", "busy", "carried", "due", "execution_id", "folded", "inbox", "pace", "saved", "state",
        "stored", "values", "whole",
    )

    def __init__(self, execution_id: str, state: S | None = None) -> None:
        self.execution_id = execution_id
        self.state = state
        self.inbox: list[Entry] = []
        self.busy = False
        self.aside = False
        self.whole = False
        self.folded = 0
        self.saved = False
        self.carried: list[int] = []
        self.due: list[Outgoing] = []
        self.alarm = 0.0
        self.values: dict[str, Any] = {}
        self.stored: set[str] = set()
        self.pace = Pace()

    def news(self) -> list[Entry]:
        """What the inbox adds to the state."""
        assert self.state is not None
        as_of, inbox = self.state.as_of, self.inbox
        if inbox and inbox[0][0] > as_of:
            return inbox[:]  # it is in the order of the log, so all of it
        return [entry for entry in inbox if entry[0] > as_of]

    def take(self) -> list[int]:
        """Drops what it has been given; returns the sequences of that."""
        taken = self.carried + [seq for seq, _ in self.inbox]
        self.carried, self.inbox = [], []
        return taken

    def set_aside(self) -> list[int]:
        """Makes it busy for good, holding nothing; returns the sequences of what it had been given."""
        self.aside = self.busy = True
        self.state, self.due, self.alarm = None, [], 0.0
        self.values, self.stored = {}, set()
        return self.take()


def kept(core: Core[S], state: S | None) -> bool:
    """Whether it must stay in memory; also if that is unknown."""
    try:
        return state is None or core.keep(state)
    except Exception:
        return True


def forget_idle(actors: dict[str, Actor[S]], core: Core[S], most: int) -> int:
    """Makes room for new actors, the oldest first, down to nine tenths of `most`. Returns the number at which it is
    worth another look: if all of them must stay, not at the very next one."""
    for key, actor in list(actors.items()):
        if actor.busy or actor.inbox or kept(core, actor.state):
            continue
        del actors[key]
        if len(actors) <= most * 9 // 10:
            break
    return max(most, len(actors) * 11 // 10)
