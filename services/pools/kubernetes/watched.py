"""What is known of one pool's Deployment, and what was asked of it. The reconciler reads and asks; the loop of the
backend brings news and carries out."""

from collections.abc import Sequence

from services.pools.backends import Attended, Running
from services.pools.kubernetes.kube_api import Scale
from services.pools.kubernetes.pods import COST, GOING, STAMP, Pod, cost_of, leaving
from shared.runtime.stores.pools import WorkerStatus

COMING = "-coming-"  # in the name of a Pod that is not there yet


class Watched:
    """`target`: how many Pods were asked for and are not yet the Deployment's number; `going` were named to go.
    `listed`: the template in force when Pods were last listed: a Pod that is new in a list came after that moment at
    the earliest, so it is not taken for younger than a restart that was asked for since."""

    def __init__(self, look: Attended, deployment: str) -> None:
        self.look, self.deployment = look, deployment
        self.attended = 0.0
        self.pods: Sequence[Pod] = ()
        self.scale: Scale | None = None
        self.target: int | None = None
        self.going: frozenset[str] = frozenset()
        self.trouble = "the Kubernetes API has not been asked yet"
        self.applied = ""
        self.removed = False
        self.listed = ""
        self._stamps: dict[str, str] = {}  # by uid, of Pods whose own is not written yet

    @property
    def replicas(self) -> int:
        """How many there are to be now: no more than the Deployment says while it still has Pods that were named to go.
        Its controllers may not have seen the lower number yet, and then would see the higher one alone."""
        known = self.scale.replicas if self.scale is not None else 0
        if self.target is None or (self.target > known and self._has_too_many(known)):
            return known
        return self.target

    def _has_too_many(self, replicas: int) -> bool:
        live = [pod.name for pod in self.pods if not pod.stopping]
        return len(live) > replicas and not self.going.isdisjoint(live)

    @property
    def asked(self) -> tuple[int | None, frozenset[str]]:
        return self.target, self.going

    def saw(self, pods: Sequence[Pod], template: str) -> None:
        """`template` is the one in force when the list was asked for."""
        self.pods = pods
        stamp = self.listed or template
        self._stamps = {pod.uid: pod.template or self._stamps.get(pod.uid) or stamp for pod in pods}
        self.listed = template
        if len([pod for pod in pods if not pod.stopping]) <= self.replicas:
            self.going = frozenset()

    @property
    def leaving(self) -> frozenset[str]:
        return leaving(self.pods, self.replicas, self.going)

    def ask(self, replicas: int, *going: str) -> None:
        self.target = replicas
        self.going |= frozenset(going)

    def has(self, worker: str) -> bool:
        """Also one that is only on its way."""
        return worker.rpartition(COMING)[0] == self.deployment or any(pod.name == worker for pod in self.pods)

    def notes(self) -> list[tuple[Pod, dict[str, str]]]:
        """What is to be written on which Pod, those that are to go first."""
        out = self.leaving
        found = []
        for pod in sorted(self.pods, key=lambda pod: pod.name not in out):
            cost = GOING if pod.name in out else cost_of(self.look.held.get(pod.name, 0))
            stamp = self._stamps[pod.uid]
            if not pod.stopping and ((pod.cost or 0) != cost or pod.template != stamp):
                found.append((pod, {COST: str(cost), STAMP: stamp}))
        return found

    def workers(self, *, removes: bool) -> list[Running]:
        """The Pods there are, and those that are on their way. While the Deployment is to be deleted and is not, it
        counts as one that goes."""
        out = self.leaving
        found = []
        for pod in self.pods:
            status = pod.status(stopping=pod.stopping or pod.name in out)
            found.append(Running(status, self._stamps[pod.uid], pod.crashes(), pod.ready))
        coming = self.replicas - sum(not each.status.stopping for each in found)
        names = [f"{self.deployment}{COMING}{n + 1}" for n in range(coming)]
        found += [Running(WorkerStatus(name), self.look.template) for name in names]
        if self.look.deleting and removes and not self.removed:
            found.append(Running(WorkerStatus(self.deployment, stopping=True), self.look.template))
        return found
