"""One frozen Struct per event type.

Router and scheduler events are decisions; worker events are facts about a lease (whose run,
iteration and epoch are on the record, once, see `record.py`). `entity` and `state` feed the
envelope of FX §9.1 and FS §12.1. A new field needs a default; a removed one stays reserved.
"""

from shared.events.event_types.lease import (
    FrameClaimed,
    FrameFailed,
    IterationDone,
    IterationFailed,
    LeaseReleased,
    LoopHalted,
    PolicyUnmatched,
    StepDone,
    StepFailed,
    StepStarted,
    TaskDone,
    TaskRetried,
    TaskStarted,
    TaskWaiting,
)
from shared.events.event_types.outside import (
    CancelRequested,
    ChildEnded,
    LimitGranted,
    PauseRequested,
    ResumeRequested,
    SignalReceived,
)
from shared.events.event_types.router import (
    CompensationFailed,
    CtxPatched,
    ExecutionRequested,
    NextSelected,
    PlaybookCancelling,
    PlaybookCompensating,
    PlaybookPaused,
    PlaybookProcessed,
    PlaybookRestored,
    PlaybookResumed,
    PlaybookStarted,
    RequestEvaluated,
    StepCancelled,
    StepScheduled,
    TokenAbsorbed,
    TokenCreated,
    TokenJoined,
    TokenRejected,
    WorkflowFinished,
    WorkflowStarted,
)
from shared.events.event_types.scheduler import (
    FrameStarted,
    IterationStarted,
    LoopDone,
    LoopStarted,
    LoopStopped,
    SignalRejected,
    TaskResumed,
)
from shared.events.fields import Base, Child, Ending, Limited, Parent, Patch, Printed, Restart, Scope, Taken

__all__ = [
    "Base",
    "CancelRequested",
    "Child",
    "ChildEnded",
    "CompensationFailed",
    "CtxPatched",
    "Ending",
    "Event",
    "ExecutionRequested",
    "FrameClaimed",
    "FrameFailed",
    "FrameStarted",
    "IterationDone",
    "IterationFailed",
    "IterationStarted",
    "LeaseReleased",
    "LimitGranted",
    "Limited",
    "LoopDone",
    "LoopHalted",
    "LoopStarted",
    "LoopStopped",
    "NextSelected",
    "Parent",
    "Patch",
    "PauseRequested",
    "PlaybookCancelling",
    "PlaybookCompensating",
    "PlaybookPaused",
    "PlaybookProcessed",
    "PlaybookRestored",
    "PlaybookResumed",
    "PlaybookStarted",
    "PolicyUnmatched",
    "Printed",
    "RequestEvaluated",
    "Restart",
    "ResumeRequested",
    "Scope",
    "SignalReceived",
    "SignalRejected",
    "StepCancelled",
    "StepDone",
    "StepFailed",
    "StepScheduled",
    "StepStarted",
    "Taken",
    "TaskDone",
    "TaskResumed",
    "TaskRetried",
    "TaskStarted",
    "TaskWaiting",
    "TokenAbsorbed",
    "TokenCreated",
    "TokenJoined",
    "TokenRejected",
    "WorkflowFinished",
    "WorkflowStarted",
]

Event = (
    ExecutionRequested
    | RequestEvaluated
    | PlaybookStarted
    | PlaybookRestored
    | WorkflowStarted
    | PlaybookPaused
    | PlaybookResumed
    | PlaybookCancelling
    | PlaybookCompensating
    | CompensationFailed
    | WorkflowFinished
    | PlaybookProcessed
    | TokenCreated
    | TokenRejected
    | TokenAbsorbed
    | TokenJoined
    | StepScheduled
    | CtxPatched
    | NextSelected
    | StepCancelled
    | StepStarted
    | LeaseReleased
    | TaskStarted
    | TaskDone
    | TaskRetried
    | TaskWaiting
    | PolicyUnmatched
    | StepDone
    | StepFailed
    | IterationDone
    | IterationFailed
    | LoopHalted
    | FrameClaimed
    | FrameFailed
    | CancelRequested
    | PauseRequested
    | ResumeRequested
    | SignalReceived
    | ChildEnded
    | LimitGranted
    | TaskResumed
    | SignalRejected
    | LoopStarted
    | FrameStarted
    | IterationStarted
    | LoopStopped
    | LoopDone
)
