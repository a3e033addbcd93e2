"""Which key of the playbook says by when a step has to be over, as errors name it (V10 §5.1, §5.2.2)."""

from shared.dsl.model.plan import Plan, Step
from shared.events.stamp import stamp

# Of a run: from when it began, from its scheduling, or that of the whole execution.
TIMEOUT, DEADLINE, EXECUTION = "timeout_s", "deadline_s", "execution_s"
OVER = "the step is over its time"
_KEYS = {TIMEOUT: "lifecycle.timeout_s", DEADLINE: "lifecycle.deadline_s",
         EXECUTION: "timeouts.execution_s of the executor"}


def first(plan: Plan, step: Step, now: float, started: float | None = None) -> tuple[str, str]:
    """When a run that is scheduled now has to be over, and the key that says so; `started` is when the execution was,
    where its time counts. Earlier editions did not keep the key."""
    if step.deadline_s is None and plan.timeout_s is None:
        return "", ""
    limits = [(now + step.deadline_s, DEADLINE)] if step.deadline_s is not None else []
    if plan.timeout_s is not None and started is not None:
        limits.append((started + plan.timeout_s, EXECUTION))
    if not limits:
        return "", ""
    due, by = min(limits)
    return stamp(due), by if plan.edition > 3 else ""


def over(by: str, step: Step | None = None) -> str:
    """What is said of a run that is over its time. The log of earlier editions does not say `by` which key; whoever has
    the step says the seconds too."""
    if by not in _KEYS:
        return OVER
    key = "timeouts.step_s of the executor" if by == TIMEOUT and step and step.timed_by_executor else _KEYS[by]
    given = {TIMEOUT: step.timeout_s, DEADLINE: step.deadline_s}.get(by) if step is not None else None
    return f"{OVER}: {key}" + (f" ({given:g} s)" if given is not None else "")
