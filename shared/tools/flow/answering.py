"""Kinds whose answer is computed: nothing is opened, nothing is called, nothing is released."""

from collections.abc import Callable

from shared.events.failure import CONFIG
from shared.events.outcome import Outcome, failed
from shared.tools.base.contract import Call, Tool, ToolOptions, Waits
from shared.tools.base.guard import BadCall

Answer = Callable[[Call], Outcome | Waits]


def waiting(waits: Callable[[Call], Waits]) -> Answer:
    """What a call waits for, as an answer: one that is written wrong has failed."""

    def answer(call: Call) -> Outcome | Waits:
        try:
            return waits(call)
        except BadCall as error:
            return failed(CONFIG, str(error))

    return answer


def answering(answer: Answer) -> Callable[[ToolOptions], Tool]:
    """Opens the tool of a kind that answers so."""
    return lambda _options: AnsweringTool(answer)


class AnsweringTool:
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def run(self, call: Call) -> Outcome | Waits:
        return self._answer(call)

    async def close(self) -> None:
        """Nothing to release."""
