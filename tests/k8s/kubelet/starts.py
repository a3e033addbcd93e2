"""One container of a Pod through all its starts, and what the API says of it."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from tests.k8s.cluster.api import Object
from tests.k8s.kubelet.container import Container
from tests.k8s.kubelet.probes import Probes

MAX_BACKOFF_S = 10.0  # real ones wait up to five minutes


class Starts:
    """`over`: it has ended and is not started again."""

    def __init__(self, spec: Object, policy: str, grace_s: float, address: str) -> None:
        self.spec, self._policy, self._grace_s, self._address = spec, policy, grace_s, address
        self.container: Container | None = None
        self.probes = Probes(spec, address)
        self.over = False
        self._restarts, self._due = 0, 0.0
        self._last: Object | None = None

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def ready(self) -> bool:
        return self.container is not None and self.probes.ready

    @property
    def succeeded(self) -> bool:
        return self.over and self._last is not None and self._last["exitCode"] == 0

    def look(self, start: Callable[[int], Container]) -> None:
        if self.over:
            return
        if self.container is None:
            if time.monotonic() >= self._due:
                self.container, self.probes = start(self._restarts), Probes(self.spec, self._address)
            return
        code = self.container.exit_code
        if code is None and (reason := self.probes.look()):
            self.ended(self.container.end(self._grace_s), reason)
        elif code is not None:
            self.ended(code)

    def ended(self, code: int, reason: str = "") -> None:
        assert self.container is not None
        self._last = {"exitCode": code, "reason": "Completed" if code == 0 else "Error", "message": reason,
                      "startedAt": stamp(self.container.began), "finishedAt": stamp(time.time())}
        self.container = None
        self.over = self._policy == "Never" or (self._policy == "OnFailure" and code == 0)
        if not self.over:
            self._due = time.monotonic() + min(MAX_BACKOFF_S, 2.0 ** self._restarts)
            self._restarts += 1

    def end(self, within_s: float) -> None:
        if self.container is not None:
            self._policy = "Never"
            self.ended(self.container.end(within_s))

    def status(self) -> Object:
        return {"name": self.name, "image": self.spec["image"], "imageID": "", "ready": self.ready,
                "started": self.container is not None and self.probes.started, "restartCount": self._restarts,
                "state": self._state(), "lastState": {"terminated": self._last} if self._restarts else {}}

    def _state(self) -> Object:
        if self.container is not None:
            return {"running": {"startedAt": stamp(self.container.began)}}
        if self.over:
            return {"terminated": self._last}
        return {"waiting": {"reason": "CrashLoopBackOff" if self._last else "ContainerCreating"}}


def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
