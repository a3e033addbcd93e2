"""Which mock of a test answers a call, and with what."""

from collections.abc import Sequence
from typing import Any

import msgspec

from shared.answers.rehearsal.types import Need, Took
from shared.dsl.playtests.model import Mock
from shared.dsl.templates.evaluate import evaluate, truth
from shared.errors import NoetlError, TemplateError
from shared.tools.base.guard import BadCall
from shared.tools.testing import mock_outcome


class BrokenMock(NoetlError):
    """A mock that cannot be evaluated, or not be what its tool gives."""

    def __init__(self, mock: Mock, error: TemplateError | BadCall) -> None:
        super().__init__(f"the mock of {mock.step}.{mock.task} on line {mock.line}: {error}")


class Mocks:
    """Of one execution and its children. `main` is the path of the playbook under test. The same call, made again after
    a fault, is answered by the same mock."""

    def __init__(self, own: Sequence[Mock], shared: Sequence[Mock], main: str) -> None:
        self._own, self._all, self._main = own, (*own, *shared), main
        self._used: set[int] = set()
        self._calls: dict[tuple[str, str, int, str], list[int]] = {}

    def answer(self, need: Need) -> Took | None:
        """None: no mock fits."""
        nth = self._nth(need)
        names = {**need.names, "call": plain(need.config)}
        for place, mock in enumerate(self._all):
            if self._fits(mock, need, nth):
                try:
                    if mock.when is None or truth(mock.when, names):
                        self._used.add(place)
                        made = mock_outcome.outcome(need.kind, mock.says, evaluate(mock.value, names))
                        return mock_outcome.in_time(need.kind, need.spec, made, mock.after)
                except (TemplateError, BadCall) as error:
                    raise BrokenMock(mock, error) from None
        return None

    def unused(self) -> list[Mock]:
        """Those of the case that answered no call."""
        return [mock for place, mock in enumerate(self._own) if place not in self._used]

    def shared(self) -> set[int]:
        """The places, among those of the file, of the mocks that answered a call."""
        return {place - len(self._own) for place in self._used if place >= len(self._own)}

    def _nth(self, need: Need) -> int:
        """Which call of the task it is in its run or iteration: one that comes again keeps its number. Of claims,
        which frame."""
        if need.frame >= 0:
            return need.frame + 1
        numbers = self._calls.setdefault((need.execution_id, need.run_id, need.index, need.task), [])
        if need.number not in numbers:
            numbers.append(need.number)
        return numbers.index(need.number) + 1

    def _fits(self, mock: Mock, need: Need, nth: int) -> bool:
        if (mock.playbook or self._main, mock.step, mock.task) != (need.path, need.step, need.task):
            return False
        run = int(need.run_id.rpartition(":")[2])
        found = {"attempt": need.attempt, "nth": nth, "run": run, "iteration": need.index}
        return all(getattr(mock, key) in (None, value) for key, value in found.items())


def plain(config: Any) -> Any:
    """The rendered keys of a call as templates and people can read them."""
    return msgspec.to_builtins(config)
