"""The life of one Pod: it waits for what it mounts, its containers run, are probed and started again, it is asked to
go, has its grace, and is gone. Every change is told to the API, and nothing else is known to anyone."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.k8s.cluster.api import Api, Object, Refused, path
from tests.k8s.cluster.plane import ADDRESS
from tests.k8s.kubelet.container import Container
from tests.k8s.kubelet.environment import environment
from tests.k8s.kubelet.sandbox import Sandbox
from tests.k8s.kubelet.starts import Starts, stamp
from tests.k8s.kubelet.volumes import NotThereYet, Volumes

LOOK_S, BRING_S = 0.2, 3.0
GONE = (404, 409)  # it is not there, or another has its name


class Life(threading.Thread):
    def __init__(self, api: Api, pod: Object, folder: Path, hosts: Path, trouble: Callable[[str], None]) -> None:
        super().__init__(name=pod["metadata"]["name"], daemon=True)
        self._api, self._pod, self._folder, self._hosts, self._trouble = api, pod, folder, hosts, trouble
        self._vanished = threading.Event()
        self._told: Object = {}
        self._since: dict[str, tuple[str, str]] = {}
        self._began = stamp(time.time())
        self._starts: list[Starts] = []
        self._sandbox: Sandbox | None = None
        self._waits = ""

    def see(self, pod: Object) -> None:
        """As the API has it now."""
        self._pod = pod

    def vanish(self) -> None:
        """It was deleted without being asked."""
        self._vanished.set()

    @property
    def _going(self) -> bool:
        return self._vanished.is_set() or "deletionTimestamp" in self._pod["metadata"]

    def run(self) -> None:
        try:
            self._live()
        except Exception as error:  # a Pod that this kubelet cannot run is told of in the end
            self._trouble(f"{self.name}: {type(error).__name__}: {error}")
        finally:
            self._end()

    def _live(self) -> None:
        if self._pod["spec"].get("initContainers"):
            raise AssertionError("this kubelet does not know initContainers")
        meta, spec = self._pod["metadata"], self._pod["spec"]
        volumes = Volumes(self._api, self._pod, self._folder / "volumes" / meta["uid"], self._folder / "claims")
        self._sandbox = Sandbox(meta["name"], share_processes=bool(spec.get("shareProcessNamespace")))
        grace_s = float(spec.get("terminationGracePeriodSeconds", 30))
        self._starts = [Starts(each, spec.get("restartPolicy", "Always"), grace_s, self._sandbox.address)
                        for each in spec["containers"]]
        due = 0.0
        while not self._going:
            try:
                if time.monotonic() >= due:
                    volumes.bring()
                    due = time.monotonic() + BRING_S
                for each in self._starts:
                    each.look(lambda number, each=each: self._start(each, number, volumes))  # type: ignore[misc]
                self._waits = ""
            except NotThereYet as error:
                self._waits = str(error)
            except OSError as error:  # the API does not answer: as it was
                self._waits = self._waits or f"{type(error).__name__}: {error}"
            self._tell()
            self._vanished.wait(LOOK_S)

    def _start(self, which: Starts, number: int, volumes: Volumes) -> Container:
        assert self._sandbox is not None
        given = environment(self._api, self._pod, which.spec, self._sandbox.address)
        log = self._folder / "logs" / f"{self.name}.{which.name}.{number}.log"
        return Container(which.spec, given, self._sandbox, volumes, self._hosts, log)

    def _end(self) -> None:
        grace_s = 0.0 if self._vanished.is_set() else float(self._pod["metadata"].get("deletionGracePeriodSeconds", 30))
        if self._starts:
            with ThreadPoolExecutor(len(self._starts)) as threads:
                list(threads.map(lambda each: each.end(grace_s), self._starts))
        if self._sandbox is not None:
            self._sandbox.close()
        self._tell()
        if not self._vanished.is_set():
            self._remove()

    def _remove(self) -> None:
        meta = self._pod["metadata"]
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0,
                "preconditions": {"uid": meta["uid"]}}
        try:
            self._api.ask("DELETE", path("pods", meta["namespace"], meta["name"]), body)
        except Refused as error:
            if error.status not in GONE:
                raise

    # -- what is told

    def _tell(self) -> None:
        status = self._status()
        if status == self._told or self._vanished.is_set():
            return
        meta = self._pod["metadata"]
        try:
            change = {"metadata": {"uid": meta["uid"]}, "status": status}
            self._api.merge("pods", meta["namespace"], f"{meta['name']}/status", change)
            self._told = status
        except Refused as error:
            if error.status not in GONE:
                raise
        except OSError:
            return  # at the next look

    def _status(self) -> Object:
        over = bool(self._starts) and all(each.over for each in self._starts)
        phase = "Pending" if not any(each.container or each.status()["restartCount"] for each in self._starts) \
            else "Running"
        if over:
            phase = "Succeeded" if all(each.succeeded for each in self._starts) else "Failed"
        ready = not over and bool(self._starts) and all(each.ready for each in self._starts)
        conditions = [self._condition(kind, value) for kind, value in (
            ("Initialized", True), ("Ready", ready), ("ContainersReady", ready), ("PodScheduled", True))]
        address = self._sandbox.address if self._sandbox is not None else ""
        return {"phase": phase, "conditions": conditions, "hostIP": ADDRESS, "startTime": self._began,
                "message": self._waits, "containerStatuses": [each.status() for each in self._starts],
                **({"podIP": address, "podIPs": [{"ip": address}]} if address else {})}

    def _condition(self, kind: str, value: bool) -> Object:
        said = str(value)
        if self._since.get(kind, ("", ""))[0] != said:
            self._since[kind] = said, stamp(time.time())
        return {"type": kind, "status": said, "lastTransitionTime": self._since[kind][1]}
