"""What the probes of a container have found, each at its own pace: has it started, is it alive, is it ready."""

import http.client
import time
from urllib.error import URLError
from urllib.request import urlopen

from tests.k8s.cluster.api import Object


class Probe:
    """`ok`: as often as it takes, in a row. `failed`: as often as it may not."""

    def __init__(self, spec: Object, container: Object, address: str) -> None:
        if "httpGet" not in spec:
            raise AssertionError(f"this kubelet only knows httpGet, not {spec}")
        get, ports = spec["httpGet"], {each["name"]: each["containerPort"] for each in container.get("ports", ())}
        self._url = f"http://{address}:{ports.get(get['port'], get['port'])}{get.get('path', '/')}"
        self._spec, self._due, self._row = spec, 0.0, 0
        self._due = time.monotonic() + spec.get("initialDelaySeconds", 0)

    @property
    def ok(self) -> bool:
        return self._row >= int(self._spec.get("successThreshold", 1))

    @property
    def failed(self) -> bool:
        return -self._row >= int(self._spec.get("failureThreshold", 3))

    def look(self) -> None:
        """When it is due."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + float(self._spec.get("periodSeconds", 10))
        self._row = max(self._row, 0) + 1 if self._answers() else min(self._row, 0) - 1

    def _answers(self) -> bool:
        try:
            with urlopen(self._url, timeout=float(self._spec.get("timeoutSeconds", 1))) as answer:
                return bool(200 <= answer.status < 400)
        except (URLError, OSError, http.client.HTTPException):
            return False


class Probes:
    """Of one start of a container."""

    def __init__(self, container: Object, address: str) -> None:
        self._of = {name: Probe(container[name], container, address)
                    for name in ("startupProbe", "livenessProbe", "readinessProbe") if name in container}
        self.ready, self.started = False, False

    def look(self) -> str:
        """Why it must be ended; empty when it need not."""
        startup, live, ready = (self._of.get(f"{name}Probe") for name in ("startup", "liveness", "readiness"))
        if not self.started and startup is not None:
            startup.look()
            if not startup.ok:
                return "it did not start in time" if startup.failed else ""
        self.started = True
        if live is not None:
            live.look()
            if live.failed:
                return "it does not say that it is alive"
        if ready is None:
            self.ready = True
            return ""
        ready.look()
        self.ready = ready.ok or (self.ready and not ready.failed)
        return ""
