"""What a request and its plan say together: which priority, and whether the wanted step is there."""

from shared.dsl.model.plan import Plan
from shared.events.fields import PRIORITY
from shared.events.request import Request


def missing_step(request: Request, plan: Plan) -> str:
    """Whoever called wants the result of a step that is not there; before the fourth edition it got nothing."""
    wanted = request.parent.returns if request.parent is not None and not request.parent.detached else ""
    if not wanted or wanted in plan.steps or plan.edition < 4:
        return ""
    return f"return_step: {plan.path} has no step {wanted!r}"


def priority_of(request: Request, plan: Plan) -> int:
    asked = request.priority if request.priority is not None else plan.priority
    return PRIORITY if asked is None else asked
