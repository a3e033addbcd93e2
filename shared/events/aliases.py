"""The other names of events: those of FS §12.2 and of FX §9.2. This is the one table; conditions read it
(`event.name == 'step.finished'`), and whoever prints events for readers of those documents.

A sink is a task and a case is rules and arcs, so there are no events of their own: `sink.*` and `case.*` are
`tool.*` and `next.evaluated` here."""

from typing import Any, NamedTuple


class Formal(NamedTuple):
    """`fs` and `fx` are empty where the document has no name. `fx_error` is FX's name of the failed one."""

    fs: str = ""
    fx: str = ""
    fx_error: str = ""


FORMAL: dict[str, Formal] = {
    "playbook.execution.requested": Formal("playbook.execution.requested", "PlaybookExecutionRequested"),
    "playbook.request.evaluated": Formal("playbook.request.evaluated", "PlaybookRequestEvaluated"),
    "playbook.started": Formal("playbook.started"),
    "playbook.paused": Formal("", "PlaybookPaused"),
    "playbook.processed": Formal("playbook.processed", "PlaybookProcessed"),
    "workflow.started": Formal("workflow.started", "WorkflowStarted"),
    "workflow.finished": Formal("workflow.finished", "WorkflowFinished"),
    "step.started": Formal("step.started", "StepStarted"),
    "step.done": Formal("step.finished"),
    "step.failed": Formal("step.finished"),
    "step.cancelled": Formal("step.finished"),
    "task.started": Formal("tool.started", "ToolStarted"),
    "task.done": Formal("tool.processed", "ToolCompleted", "ToolErrored"),
    "task.retried": Formal("retry.started", "RetryStarted"),
    "next.selected": Formal("next.evaluated", "NextEvaluated"),
    "loop.started": Formal("loop.started", "LoopStarted"),
    "loop.iteration.started": Formal("loop.iteration.started", "LoopIterationStarted"),
    "loop.iteration.done": Formal("loop.iteration.finished", "LoopIterationCompleted"),
    "loop.iteration.failed": Formal("loop.iteration.finished", "LoopIterationCompleted"),
    "loop.done": Formal("loop.finished"),
}

# The names of conditions (FX §9.2, the end): a call is the step's, and a step is left after a failure too.
_SUCCESS = ("call.done",)
_FAILURE = ("call.error",)
EXITS = frozenset({"step.exit", FORMAL["step.done"].fs})
ENTER = frozenset({"step.enter", "step.started", FORMAL["step.started"].fx})
_TOOL = FORMAL["task.done"]

# The names each boundary event answers to. A finished loop is also a finished step.
_DONE = frozenset({"step.done", *_SUCCESS, *EXITS, _TOOL.fs, _TOOL.fx})
BOUNDARY: dict[str, frozenset[str]] = {
    "step.done": _DONE,
    "loop.done": _DONE | {"loop.done", FORMAL["loop.done"].fs},
    "step.failed": frozenset({"step.failed", *_FAILURE, *EXITS, _TOOL.fx_error}),
}
# As they were before the third edition of the language.
FORMER: dict[str, frozenset[str]] = {**BOUNDARY, "step.failed": BOUNDARY["step.failed"] - EXITS}


def formal(envelope: dict[str, Any]) -> dict[str, Any]:
    """The envelope with `event_type` by its name in FS, and `name` by its name in FX; ours where there is none."""
    own = str(envelope["event_type"])
    other = FORMAL.get(own, Formal())
    fx = other.fx_error if envelope["status"] == "error" and other.fx_error else other.fx
    return {**envelope, "event_type": other.fs or own, "name": fx or own}
