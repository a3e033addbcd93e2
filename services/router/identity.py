"""Which playbook a request names, and whether an execution that is there began by the same request."""

import msgspec
from msgspec.structs import replace

from shared.dsl.model.plan import Plan
from shared.events import model as ev
from shared.events.bounds import MAX_PATH
from shared.events.fields import Parent
from shared.events.record import Record
from shared.events.request import Request

Name = tuple[str, str, str]  # of a playbook in a request: path, version, id


def name(request: Request) -> Name:
    return request.path, request.version, request.playbook_id


def named(request: Request, plan: Plan | str) -> Request:
    """The log says by path and version which playbook an id stands for; an unknown id as it was given."""
    if not request.playbook_id:
        return request
    if isinstance(plan, Plan):
        path, at, version = request.playbook_id.rpartition("@")  # which the source need not state
        return replace(request, path=plan.path, version=version if at and path == plan.path else plan.version)
    return replace(request, path=request.playbook_id[:MAX_PATH])


def requested(record: Record) -> ev.ExecutionRequested:
    """Every execution begins with it."""
    event = record.events[0]
    return event if isinstance(event, ev.ExecutionRequested) else ev.ExecutionRequested("")


def is_same(asked: Record, first: Record) -> bool:
    """Whether the execution that is there began by this request: for the same wait, or for the same schedule or trigger
    with the same playbook."""
    one, other = requested(asked), requested(first)
    if one.parent is None or other.parent is None:
        return (one.parent, one.path, one.by) == (other.parent, other.path, other.by)
    return _wait(one.parent) == _wait(other.parent)


def is_repeated(asked: Record, first: Record) -> bool:
    """Whether the execution that is there does what this request asks for: the same playbook with the same payload,
    and of a rerun the same taken over."""
    return _wanted(asked) == _wanted(first)


def _wanted(record: Record) -> bytes:
    """As bytes: `1`, `1.0` and `true` are three payloads."""
    begun = requested(record)
    taken = next((event for event in record.events if isinstance(event, ev.PlaybookRestored)), None)
    source = (taken.of, [token.step for token in taken.tokens]) if taken is not None else None
    return msgspec.json.encode((begun.path, begun.version, begun.payload, source), order="deterministic")


def _wait(parent: Parent) -> tuple[str, str, int, str]:
    return parent.execution_id, parent.run_id, parent.index, parent.wait
