"""The router's decisions: the execution, its tokens and steps."""

from typing import Any

from shared.events.bounds import Index, Name, Seq, Text, Time
from shared.events.fields import PRIORITY, Base, Ending, Limited, Parent, Patch, Restart, Scope
from shared.events.outcome import Ref, Result


class ExecutionRequested(Base, frozen=True, tag="playbook.execution.requested"):
    """`labels` are those of the playbook and of the request."""

    path: str
    version: str = ""
    payload: dict[str, Any] = {}
    request_id: str = ""
    parent: Parent | None = None
    priority: int | None = None
    labels: dict[str, str] = {}
    by: str = ""
    entity = "playbook"


class RequestEvaluated(Base, frozen=True, tag="playbook.request.evaluated"):
    """`pools` are those chosen for steps that require capabilities, by step."""

    digest: str = ""
    error: dict[str, Any] | None = None
    pools: dict[str, str] = {}
    entity = "playbook"
    state = "success"


class PlaybookStarted(Base, frozen=True, tag="playbook.started"):
    """With a `limit` nothing of it runs before it holds a place."""

    workload: dict[str, Any] = {}
    priority: int = PRIORITY
    limit: Limited | None = None
    entity = "playbook"


class PlaybookRestored(Base, frozen=True, tag="playbook.restored"):
    """What the execution takes over from the one named `of`, and where it continues."""

    of: str
    ctx: dict[str, Any] = {}
    results: dict[str, Result] = {}
    tokens: tuple[Restart, ...] = ()
    entity = "playbook"


class WorkflowStarted(Base, frozen=True, tag="workflow.started"):
    entity = "workflow"


class PlaybookPaused(Base, frozen=True, tag="playbook.paused"):
    reason: str = ""
    by: str = ""
    entity = "playbook"


class PlaybookResumed(Base, frozen=True, tag="playbook.resumed"):
    by: str = ""
    entity = "playbook"


class PlaybookCancelling(Base, frozen=True, tag="playbook.cancelling"):
    """Nothing new starts, and what runs is told to stop; over at `until`, whatever still runs then."""

    until: Time
    reason: str = ""
    by: str = ""
    entity = "playbook"


class PlaybookCompensating(Base, frozen=True, tag="playbook.compensating"):
    """It will end with this status. Before that, what is done is undone; what still runs is told to stop, and waited
    for until `until`."""

    status: Ending
    error: dict[str, Any]
    until: Time
    entity = "playbook"


class CompensationFailed(Base, frozen=True, tag="compensation.failed"):
    """The run `compensates` is not undone: its compensation failed with this error, or could not begin (no
    `run_id`)."""

    compensates: Name
    step: Name
    error: dict[str, Any]
    run_id: Text = ""
    entity = "workflow"
    state = "error"


class WorkflowFinished(Base, frozen=True, tag="workflow.finished"):
    status: Ending = "completed"
    entity = "workflow"
    state = "success"


class PlaybookProcessed(Base, frozen=True, tag="playbook.processed"):
    status: Ending = "completed"
    result: Result | None = None
    error: dict[str, Any] | None = None
    entity = "playbook"
    state = "success"


# --- tokens and routing -------------------------------------------------------------------


class TokenCreated(Base, frozen=True, tag="token.created"):
    token_id: Text
    step: Name
    args: dict[str, Any] = {}
    parent_run_id: Text = ""
    entity = "workflow"


class TokenRejected(Base, frozen=True, tag="token.rejected"):
    """Admission denied; `rule` is the index of the rule that decided, -1 when none matched. `reason`: no rule
    did, too few tokens came for the join."""

    token_id: Text
    step: Name
    rule: Index = -1
    reason: str = ""
    entity = "workflow"
    state = "skipped"


class TokenAbsorbed(Base, frozen=True, tag="token.absorbed"):
    """It came to a step that its wave had entered already, by the run `run_id`."""

    token_id: Text
    step: Name
    run_id: Name
    entity = "workflow"
    state = "skipped"


class TokenJoined(Base, frozen=True, tag="token.joined"):
    step: Name
    tokens: tuple[str, ...]
    entity = "workflow"


class StepScheduled(Base, frozen=True, tag="step.scheduled"):
    """A step-run exists. Without a pool the step has no tool and the router ends it itself.

    `wave` counts the waves of tokens where a join lets each enter once. `undo`: it is compensated when the
    execution fails or is cancelled after it. `compensates` is the run that this one undoes; no token leads here.
    `limited`: it, or each iteration of it, waits for a place. `due_by` is the key of the playbook that its deadline
    comes from; nothing before the fourth edition of the language.
    """

    run_id: Name
    step: Name
    tokens: tuple[str, ...] = ()
    digest: str = ""
    pool: Text = ""
    loop: bool = False
    args: dict[str, Any] = {}
    scope: Scope = Scope()
    scope_ref: Ref | None = None
    deadline: Time = ""
    due_by: Text = ""
    wave: Seq = 0
    undo: bool = False
    compensates: Text = ""
    limited: bool = False


class CtxPatched(Base, frozen=True, tag="ctx.patched"):
    run_id: Name
    patch: Patch
    entity = "workflow"
    state = "success"


class NextSelected(Base, frozen=True, tag="next.selected"):
    """The end of a step-run: its boundary event and the arcs that fired."""

    run_id: Name
    step: Name
    event: str
    arcs: tuple[str, ...] = ()
    entity = "workflow"
    state = "success"


class StepCancelled(Base, frozen=True, tag="step.cancelled"):
    """From the router: the run is to stop. From the scheduler: nothing of the loop runs now."""

    run_id: Name
    step: Name
    reason: str
    pool: Text = ""
    state = "skipped"
