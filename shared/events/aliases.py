"""The other names of events: those of FS §12.2, of FX §9.2 and of DSL2 §9.2. This is the one table; conditions read it
(`event.name == 'step.finished'`), and whoever shows events to readers of those documents
(`shared/answers/history/formal.py`).

An event of ours that is one of theirs has its row in `FORMAL`. What is an event of its own there, and a part of another
one in our log, has its row in `SAID`.
"""

from typing import NamedTuple


class Formal(NamedTuple):
    """`fs` and `fx` are empty where the document has no name. `fx_error` is FX's name of the failed one."""

    fs: str = ""
    fx: str = ""
    fx_error: str = ""


class Said(NamedTuple):
    """An event of theirs that follows from ours: from which of them, and when."""

    name: Formal
    entity: str
    of: tuple[str, ...]
    when: str


_TOOL = Formal("tool.processed", "ToolCompleted", "ToolErrored")
CLAIMED = "lease.claimed"  # our name of a worker's `step.started` where the server says that a step has started

FORMAL: dict[str, Formal] = {
    "playbook.execution.requested": Formal("playbook.execution.requested", "PlaybookExecutionRequested"),
    "playbook.request.evaluated": Formal("playbook.request.evaluated", "PlaybookRequestEvaluated"),
    "playbook.started": Formal("playbook.started"),
    "playbook.paused": Formal("", "PlaybookPaused"),
    "playbook.processed": Formal("playbook.processed", "PlaybookProcessed"),
    "workflow.started": Formal("workflow.started", "WorkflowStarted"),
    "workflow.finished": Formal("workflow.finished", "WorkflowFinished"),
    "step.done": Formal("step.finished"),
    "step.failed": Formal("step.finished"),
    "step.cancelled": Formal("step.finished"),
    "task.started": Formal("tool.started", "ToolStarted"),
    "task.done": _TOOL,
    "task.retried": _TOOL,
    "next.selected": Formal("next.evaluated", "NextEvaluated"),
    "loop.started": Formal("loop.started", "LoopStarted"),
    "loop.iteration.started": Formal("loop.iteration.started", "LoopIterationStarted"),
    "loop.iteration.done": Formal("loop.iteration.finished", "LoopIterationCompleted"),
    "loop.iteration.failed": Formal("loop.iteration.finished", "LoopIterationCompleted"),
    "loop.done": Formal("loop.finished"),
}

SAID: dict[str, Said] = {row.name.fs: row for row in (
    Said(Formal("token.enqueued"), "workflow", ("token.created",), "the token is at its step"),
    Said(Formal("next.enqueued"), "workflow", ("token.created",), "an arc has put the token there"),
    Said(Formal("token.claimed"), "workflow", ("step.scheduled",), "for each token that the run has taken"),
    Said(Formal("step.started", "StepStarted"), "step", ("step.scheduled",), "always"),
    Said(Formal("step.finished"), "step", ("loop.done", "next.selected"),
         "a loop has ended its step; a step without a tool ends where it is routed"),
    Said(Formal("loop.finished"), "loop", ("step.failed", "step.cancelled", "next.selected"),
         "the step ends before its loop is done"),
    Said(Formal("loop.iteration.started", "LoopIterationStarted"), "loop", ("step.started",),
         "the worker of a local loop begins an iteration"),
    Said(Formal("retry.started", "RetryStarted"), "retry", ("task.retried", "task.done"),
         "another attempt follows, or by a retry policy another call"),
    Said(Formal("retry.processed", "RetryProcessed"), "retry", ("task.done", "task.retried"),
         "the end of such an attempt or call"),
    Said(Formal("sink.started", "SinkStarted"), "sink", ("task.started",), "in place of `tool.started`: of a sink"),
    Said(Formal("sink.processed", "SinkProcessed"), "sink", ("task.done", "task.retried"),
         "in place of `tool.processed`: of a sink; also one that its `when` skips"),
    Said(Formal("case.started", "CaseStarted"), "case", ("task.started", "next.selected"),
         "in place of `tool.started`: rules of a case that act; beside `next.evaluated`: rules that route"),
    Said(Formal("case.evaluated", "CaseEvaluated"), "case", ("task.done", "next.selected"),
         "in place of `tool.processed`, and beside `next.evaluated`"),
)}

# The names of conditions (FX §9.2, the end): a call is the step's, and a step is left after a failure too.
_SUCCESS = ("call.done",)
_FAILURE = ("call.error",)
EXITS = frozenset({"step.exit", FORMAL["step.done"].fs})
ENTER = frozenset({"step.enter", "step.started", SAID["step.started"].name.fx})

# The names each boundary event answers to. A finished loop is also a finished step.
_DONE = frozenset({"step.done", *_SUCCESS, *EXITS, _TOOL.fs, _TOOL.fx})
BOUNDARY: dict[str, frozenset[str]] = {
    "step.done": _DONE,
    "loop.done": _DONE | {"loop.done", FORMAL["loop.done"].fs},
    "step.failed": frozenset({"step.failed", *_FAILURE, *EXITS, _TOOL.fx_error}),
}
# As they were before the third edition of the language.
FORMER: dict[str, frozenset[str]] = {**BOUNDARY, "step.failed": BOUNDARY["step.failed"] - EXITS}
