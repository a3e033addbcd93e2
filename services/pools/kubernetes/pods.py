"""A Pod of a pool as the API shows it, and what is written on it. Pure.

The cost of a Pod is how much Kubernetes should mind deleting it (`pod-deletion-cost`): when a Deployment gets smaller,
those that cost least go first. An idle worker costs nothing, a busy one the more the more it holds, and one that is to
go less than nothing. What a worker holds changes all the time, so a cost is rounded down to a power of two: it is
written only when that changes."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from services.pools.kubernetes.kube_api import POOL_LABEL
from shared.events.stamp import seconds
from shared.runtime.stores.pools import Crash, WorkerStatus

COST = "controller.kubernetes.io/pod-deletion-cost"
STAMP = "noetl.io/template"  # which restart of the pool the Pod came after
GOING = -1_000_000
MAX_REASON = 200


class Pod(Struct, frozen=True, kw_only=True):
    """`deployment`: whose it is. `ready`: its probes say so. `failures`: ends of its container, while Kubernetes waits
    to start it again."""

    name: str
    uid: str
    pool: str
    deployment: str
    since: float = 0.0
    stopping: bool = False
    ready: bool = False
    failures: int = 0
    ended: str = ""
    ended_at: float = 0.0
    cost: int | None = None
    template: str = ""

    @property
    def log(self) -> str:
        return f"kubectl logs {self.name}"

    def status(self, *, stopping: bool) -> WorkerStatus:
        return WorkerStatus(self.name, 0, self.since, stopping, self.failures, self.ended, self.log, host=self.name)

    def crashes(self) -> tuple[Crash, ...]:
        return (Crash(self.ended_at, self.name, self.ended, self.log),) if self.ended_at else ()


def read(found: Iterable[Mapping[str, Any]]) -> list[Pod]:
    """Those that belong to a ReplicaSet of a Deployment, and have not ended for good."""
    pods = []
    for each in found:
        try:
            pod = _pod(each)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            continue  # not what a Pod looks like: not ours
        if pod is not None:
            pods.append(pod)
    return pods


def _pod(found: Mapping[str, Any]) -> Pod | None:
    meta, status = found["metadata"], found.get("status") or {}
    owners = [each["name"] for each in meta.get("ownerReferences") or () if each.get("kind") == "ReplicaSet"]
    if not owners or status.get("phase") in ("Failed", "Succeeded"):
        return None
    notes = meta.get("annotations") or {}
    container = (status.get("containerStatuses") or [{}])[0]
    last = (container.get("lastState") or {}).get("terminated") or {}
    waiting = (container.get("state") or {}).get("waiting") or {}
    return Pod(
        name=meta["name"], uid=meta["uid"], pool=meta["labels"][POOL_LABEL], deployment=owners[0].rpartition("-")[0],
        since=_at(meta.get("creationTimestamp")), stopping=bool(meta.get("deletionTimestamp")),
        ready=_is_ready(status.get("conditions") or ()),
        failures=int(container.get("restartCount") or 0) if waiting.get("reason") == "CrashLoopBackOff" else 0,
        ended=_end(last), ended_at=_at(last.get("finishedAt")), cost=_number(notes.get(COST)),
        template=str(notes.get(STAMP) or ""),
    )


def _is_ready(conditions: Iterable[Mapping[str, Any]]) -> bool:
    return any((each.get("type"), each.get("status")) == ("Ready", "True") for each in conditions)


def _end(last: Mapping[str, Any]) -> str:
    if not last:
        return ""
    reason = f", {str(last['reason'])[:MAX_REASON]}" if last.get("reason") not in (None, "Error", "Completed") else ""
    return f"exit code {last.get('exitCode')}{reason}"


def _at(text: Any) -> float:
    return seconds(text) if isinstance(text, str) and text else 0.0


def _number(text: Any) -> int | None:
    try:
        return int(text)
    except (TypeError, ValueError):
        return None


def cost_of(held: int) -> int:
    return 1 << (held.bit_length() - 1) if held > 0 else 0


def leaving(pods: Iterable[Pod], replicas: int, going: frozenset[str]) -> frozenset[str]:
    """The Pods that are too many: those named first, then those that are not ready, then those that cost least."""
    live = [pod for pod in pods if not pod.stopping]
    order = sorted(live, key=lambda pod: (pod.name not in going, pod.ready, pod.cost or 0, pod.name))
    return frozenset(pod.name for pod in order[: max(0, len(live) - replicas)])
