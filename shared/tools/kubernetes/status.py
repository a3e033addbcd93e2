"""The state of a Kubernetes job, from its Job and its Pods: a pure reading of what the API answers."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from shared.events.stamp import seconds
from shared.tools.kubernetes.manifest import CONTAINER

# A pod that waits for one of these waits for ever: somebody has to change the playbook or the cluster.
HOPELESS = frozenset({"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
# These the node tries again by itself, and mostly in vain.
STUCK = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
# The node's fault, not the program's.
DISRUPTED = frozenset({"Evicted", "NodeLost", "NodeAffinity", "NodeShutdown", "Shutdown", "Terminated", "Preempting",
                       "UnexpectedAdmissionError"})
PLAIN = frozenset({"", "Error", "Completed"})  # reasons that say no more than the exit code


class State(Struct, frozen=True):
    phase: Literal["waiting", "running", "succeeded", "failed", "stuck", "hopeless"]
    pod: str = ""
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    disrupted: bool = False
    succeeded: int = 0
    failed: int = 0
    seconds: float | None = None


def read(job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> State:
    status = job.get("status") or {}
    held = {each["type"]: each for each in status.get("conditions") or () if each.get("status") == "True"}
    mine = sorted((pod for pod in pods if _owner(pod) == job["metadata"]["uid"]),
                  key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""))
    if "Complete" in held:
        found = _ended("succeeded", job, _last(mine, "Succeeded"), held["Complete"])
    elif "Failed" in held:
        found = _ended("failed", job, _last(mine, "Failed"), held["Failed"])
    else:
        found = _going(_last(mine))
    return replace(found, succeeded=int(status.get("succeeded") or 0), failed=int(status.get("failed") or 0))


def _owner(pod: Mapping[str, Any]) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(each.get("uid")) for each in owners if each.get("kind") == "Job"), "")


def _last(pods: Sequence[Mapping[str, Any]], phase: str = "") -> Mapping[str, Any]:
    """The latest pod, of those in that phase if there are any."""
    of_phase = [pod for pod in pods if phase and (pod.get("status") or {}).get("phase") == phase]
    return (of_phase or pods or [{}])[-1]


def _ended(phase: Literal["succeeded", "failed"], job: Mapping[str, Any], pod: Mapping[str, Any],
           condition: Mapping[str, Any]) -> State:
    status = pod.get("status") or {}
    over = _container(status).get("terminated") or {}
    own, why = str(condition.get("reason") or ""), str(status.get("reason") or "")
    said = next((each for each in (why, str(over.get("reason") or "")) if each not in PLAIN), "")
    disrupted = why in DISRUPTED or any(each.get("type") == "DisruptionTarget" and each.get("status") == "True"
                                        for each in status.get("conditions") or ())
    return State(
        phase, _name(pod), over.get("exitCode"),
        "" if phase == "succeeded" else own if own == "DeadlineExceeded" else said or own,
        str(over.get("message") or status.get("message") or condition.get("message") or ""),
        phase == "failed" and own != "DeadlineExceeded" and disrupted, seconds=_seconds(job, condition),
    )


def _going(pod: Mapping[str, Any]) -> State:
    status = pod.get("status") or {}
    container = _container(status)
    waiting = container.get("waiting") or {}
    reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    if reason in HOPELESS | STUCK:
        return State("hopeless" if reason in HOPELESS else "stuck", _name(pod), None, reason, message)
    if "running" in container:
        return State("running", _name(pod))
    for each in status.get("conditions") or ():
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return State("waiting", _name(pod), None, str(each.get("reason") or ""), str(each.get("message") or ""))
    return State("waiting", _name(pod), None, reason, message)


def _container(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The job's own container: a cluster may put others beside it."""
    found = status.get("containerStatuses") or ()
    return next((each.get("state") or {} for each in found if each.get("name") == CONTAINER), {})


def _name(pod: Mapping[str, Any]) -> str:
    return str((pod.get("metadata") or {}).get("name") or "")


def _seconds(job: Mapping[str, Any], condition: Mapping[str, Any]) -> float | None:
    status = job.get("status") or {}
    started, ended = status.get("startTime"), status.get("completionTime") or condition.get("lastTransitionTime")
    try:
        return max(seconds(ended) - seconds(started), 0.0) if started and ended else None
    except (TypeError, ValueError):
        return None
