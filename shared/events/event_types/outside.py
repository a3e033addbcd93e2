"""What comes from outside an execution: wishes, signals, ends of children."""

from typing import Any

from shared.events.outcome import Result
from shared.events.parts import Base, Ending


class CancelRequested(Base, frozen=True, tag="cancel.requested"):
    """`grace_s`: how long what runs may take to stop."""

    reason: str = ""
    by: str = ""
    grace_s: float = 10.0
    entity = "playbook"


class PauseRequested(Base, frozen=True, tag="pause.requested"):
    """`at` is when the broker took the request: the latest counts, in whatever order they get here."""

    reason: str = ""
    by: str = ""
    at: int = 0
    entity = "playbook"


class ResumeRequested(Base, frozen=True, tag="resume.requested"):
    by: str = ""
    at: int = 0
    entity = "playbook"


class SignalReceived(Base, frozen=True, tag="signal.received"):
    name: str
    payload: Any = None
    by: str = ""
    entity = "playbook"


class ChildEnded(Base, frozen=True, tag="child.ended"):
    """The child that `run_id` waits for is over."""

    run_id: str
    wait: str
    child: str
    status: Ending
    index: int = -1
    result: Result = Result()
    error: dict[str, Any] | None = None
    entity = "playbook"
    state = "success"


class LimitGranted(Base, frozen=True, tag="limit.granted"):
    """The run, the iteration, or (without a run) the execution holds a place of the key from here to its end."""

    key: str
    run_id: str = ""
    index: int = -1
    entity = "workflow"
    state = "success"
