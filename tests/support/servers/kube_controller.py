"""What happens to jobs in a cluster: pods that wait, run and end, again after a failure, until a deadline."""

import asyncio
import itertools
import re
from collections.abc import Mapping
from typing import Any

import msgspec

STARTED, ENDED = "2026-01-01T00:00:10Z", "2026-01-01T00:00:12Z"


class Ended(msgspec.Struct):
    """What a container comes to."""

    exit_code: int = 0
    output: bytes = b""
    reason: str = ""
    pod_reason: str = ""


class Container(msgspec.Struct):
    """A container as its program sees it."""

    command: list[str]
    env: dict[str, str]
    files: dict[str, str]
    attempt: int


class Controller:
    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._running: dict[str, asyncio.Task[None]] = {}
        self._numbers = itertools.count(1)
        self.logs: dict[str, bytes] = {}

    def see(self, job: dict[str, Any]) -> None:
        uid = job["metadata"]["uid"]
        if not job["spec"].get("suspend") and uid not in self._running:
            self._running[uid] = asyncio.create_task(self._run(job))

    async def close(self) -> None:
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _there(self, job: dict[str, Any]) -> bool:
        found = self._cluster.objects.get(("jobs", job["metadata"]["name"]))
        return found is not None and found["metadata"]["uid"] == job["metadata"]["uid"]

    async def _run(self, job: dict[str, Any]) -> None:
        job["status"] = {"startTime": STARTED, "active": 1}
        try:
            async with asyncio.timeout(job["spec"]["activeDeadlineSeconds"]):
                for attempt in range(1, job["spec"]["backoffLimit"] + 2):
                    if await self._pod(job, attempt):
                        self._end(job, "Complete", "CompletionsReached", succeeded=1, failed=attempt - 1)
                        return
        except TimeoutError:
            for pod in self._cluster.there("pods"):
                self._cluster.remove("pods", pod["metadata"]["name"])
            self._end(job, "Failed", "DeadlineExceeded", failed=1)
            return
        self._end(job, "Failed", "BackoffLimitExceeded", failed=job["spec"]["backoffLimit"] + 1)

    def _end(self, job: dict[str, Any], condition: str, reason: str, **counts: int) -> None:
        if not self._there(job):
            return
        job["status"] = {"startTime": STARTED, **counts, "conditions": [
            {"type": condition, "status": "True", "reason": reason, "lastTransitionTime": ENDED}]}
        if condition == "Complete":
            job["status"]["completionTime"] = ENDED
        self._cluster.put("jobs", job)

    async def _pod(self, job: dict[str, Any], attempt: int) -> bool:
        meta, spec = job["metadata"], job["spec"]["template"]["spec"]
        number = next(self._numbers)
        pod = {
            "metadata": {"name": f"{meta['name'][:57]}-{number:05d}", "uid": self._cluster.uid(),
                         "creationTimestamp": f"2026-01-01T00:00:{number % 60:02d}Z",
                         "labels": {**job["spec"]["template"]["metadata"]["labels"], "job-name": meta["name"]},
                         "ownerReferences": [{"kind": "Job", "uid": meta["uid"], "name": meta["name"]}]},
            "spec": spec, "status": {"phase": "Pending"},
        }
        self._cluster.put("pods", pod)
        await asyncio.sleep(0.02)
        self._status(pod, "Pending", {"waiting": {"reason": "ContainerCreating"}})
        await asyncio.sleep(0.02)
        while (container := self._container(spec["containers"][0], attempt)) is None:
            self._status(pod, "Pending", {"waiting": {"reason": "CreateContainerConfigError", "message": "no Secret"}})
            await asyncio.sleep(0.05)  # the kubelet looks again: of two calls with one key, one may put it there anew
        return await self._program(pod, container)

    async def _program(self, pod: dict[str, Any], container: Container) -> bool:
        run = self._cluster.images.get(pod["spec"]["containers"][0]["image"])
        if run is None:
            self._status(pod, "Pending", {"waiting": {"reason": "ErrImagePull", "message": "not found"}})
            await asyncio.sleep(0.05)
            waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
            self._status(pod, "Pending", {"waiting": waiting})
            await asyncio.sleep(3600)
        self.logs[pod["metadata"]["name"]] = b"starting\n"
        self._status(pod, "Running", {"running": {"startedAt": STARTED}})
        ended = await run(container)
        self.logs[pod["metadata"]["name"]] = ended.output
        over = {"exitCode": ended.exit_code, "reason": ended.reason or ("Error" if ended.exit_code else "Completed")}
        self._status(pod, "Failed" if ended.exit_code else "Succeeded", {"terminated": over}, ended.pod_reason)
        return ended.exit_code == 0

    def _status(self, pod: dict[str, Any], phase: str, state: Mapping[str, Any], reason: str = "") -> None:
        if ("pods", pod["metadata"]["name"]) in self._cluster.objects:
            pod["status"] = {"phase": phase, "containerStatuses": [{"name": "main", "state": state}],
                             **({"reason": reason} if reason else {})}
            self._cluster.put("pods", pod)

    def _container(self, spec: Mapping[str, Any], attempt: int) -> Container | None:
        """None: what it refers to is not there."""
        env: dict[str, str] = {}
        for each in spec.get("env", ()):
            ref = each["valueFrom"]["secretKeyRef"]
            secret = self._cluster.objects.get(("secrets", ref["name"]))
            if secret is None:
                return None
            env[each["name"]] = secret["stringData"][ref["key"]]
        files: dict[str, str] = {}
        for _ in spec.get("volumeMounts", ()):
            found = self._cluster.there("configmaps")
            if not found:
                return None
            files = dict(found[-1]["data"])
        words = [*spec.get("command", ()), *spec.get("args", ())]
        return Container([expanded(each, env) for each in words], env, files, attempt)


def expanded(word: str, env: Mapping[str, str]) -> str:
    """$(NAME) is its value if there is one, $$ a dollar sign."""
    return re.sub(r"\$\$|\$\(([^)]*)\)",
                  lambda found: "$" if found[0] == "$$" else env.get(found[1], found[0]), word)
