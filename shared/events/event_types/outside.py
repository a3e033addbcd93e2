"""What comes from outside an execution: wishes, signals, ends of children."""

from typing import Any

from shared.events.bounds import Delay, ExecutionId, Index, Name, Seq, Text
from shared.events.fields import Base, Ending
from shared.events.outcome import Result


class CancelRequested(Base, frozen=True, tag="cancel.requested"):
    """`grace_s`: how long what runs may take to stop."""

    reason: str = ""
    by: str = ""
    grace_s: Delay = 10.0
    entity = "playbook"


class PauseRequested(Base, frozen=True, tag="pause.requested"):
    """`at` is when the broker accepted the request: the latest counts, in whatever order they get here."""

    reason: str = ""
    by: str = ""
    at: Seq = 0
    entity = "playbook"


class ResumeRequested(Base, frozen=True, tag="resume.requested"):
    by: str = ""
    at: Seq = 0
    entity = "playbook"


class SignalReceived(Base, frozen=True, tag="signal.received"):
    name: str
    payload: Any = None
    by: str = ""
    entity = "playbook"


class ChildEnded(Base, frozen=True, tag="child.ended"):
    """The child that `run_id` waits for is over."""

    run_id: Name
    wait: Text
    child: ExecutionId
    status: Ending
    index: Index = -1
    result: Result = Result()
    error: dict[str, Any] | None = None
    entity = "playbook"
    state = "success"


class LimitGranted(Base, frozen=True, tag="limit.granted"):
    """The run, the iteration, or (without a run) the execution holds a place of the key from here to its end."""

    key: str
    run_id: Text = ""
    index: Index = -1
    entity = "workflow"
    state = "success"
