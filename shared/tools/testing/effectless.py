"""What the kinds without an effect of their own answer in a rehearsal: `noop`, and those that only wait."""

from collections.abc import Callable

from shared.answers.rehearsal.types import Need
from shared.events.outcome import Outcome
from shared.events.waits import Waits
from shared.tools.base.contract import Call
from shared.tools.flow import noop, playbook, signal, wait

_ANSWERS: dict[str, Callable[[Call], Outcome | Waits]] = {
    "noop": noop.answer, "wait": wait.answer, "signal": signal.answer, "playbook": playbook.answer,
}


def natural(need: Need) -> Outcome | Waits | None:
    """None: the kind does something outside."""
    answer = _ANSWERS.get(need.kind)
    return None if answer is None else answer(Call(need.config, need.spec, None, need.key, float("inf")))
