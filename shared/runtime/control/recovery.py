"""What a service that starts has to look at first: it is ready when it has tried each once."""

import asyncio
from collections.abc import Iterable


class Recovery:
    """`done` is set when nothing is `untried`."""

    def __init__(self) -> None:
        self.done = asyncio.Event()
        self.untried: set[str] = set()

    def begin(self, execution_ids: Iterable[str]) -> list[str]:
        self.untried = set(execution_ids)
        self.tried("")
        return sorted(self.untried)

    def tried(self, execution_id: str) -> None:
        """Loaded or not: one that cannot be loaded must not keep the service from saying that it works."""
        self.untried.discard(execution_id)
        if not self.untried:
            self.done.set()
