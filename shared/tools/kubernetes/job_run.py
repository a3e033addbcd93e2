"""One job of Kubernetes from its start to its output. The job's name tells the call, so a call that is repeated
after its worker died continues with the job that is there. Who watches it is noted on the job: a worker that has
lost the run to another leaves the job alone."""

import asyncio
import secrets
import time
from contextlib import suppress
from typing import Any

import msgspec

from shared.errors import Signal
from shared.events.outcome import Outcome, failed, ok
from shared.tools.base.contract import Call
from shared.tools.base.guard import BadCall, TooLarge, time_limit
from shared.tools.kubernetes import status as kube_status
from shared.tools.kubernetes.api import Api, ApiError, patiently
from shared.tools.kubernetes.log import Log
from shared.tools.kubernetes.manifest import CALL, CONTAINER, WATCHER, Manifests, owned
from shared.tools.kubernetes.status import State

POLL_S, MAX_POLL_S = 0.25, 5.0  # between two looks at a job: the first, and after a while
STUCK_S = 30.0                  # in which a container that cannot be started may still start
LAST_WORDS_S = 1.0              # to read the output of a job whose call is stopped, and
STOP_S = 3.5                    # to delete it: together within running.STOP_GRACE_S
STOP_TRIES = 5                  # a job changes while it is being deleted
MESSAGE_TAIL = 500              # characters of the output in the error's message


class Gone(Signal):
    """Somebody deleted the job."""


class JobRun:
    def __init__(self, api: Api, made: Manifests, max_poll_s: float = MAX_POLL_S) -> None:
        self._api, self._made, self._max_poll = api, made, max_poll_s
        self._me = secrets.token_hex(8)
        self._uid = ""
        self._unsure = False  # whether there will be a job: its creation was sent and not answered
        self._state = State("waiting")

    async def outcome(self, call: Call) -> Outcome:
        ended = False
        try:
            await self._start()
            self._state = await self._watch()
            log, problem = await self._output()
            ended = self._state.phase != "hopeless"
            return self._outcome(call, log, problem)
        except Gone:
            return failed("container", f"job {self._made.name} was deleted while it ran", retryable=True,
                          details={"exit_code": None, "reason": "Deleted"})
        except asyncio.CancelledError:
            # Over its time: what it waited for and what it said so far is worth keeping. A call that is cancelled
            # from outside drops this outcome and continues to be cancelled.
            waited = f": {self._state.reason} {self._state.message}".rstrip(": ")
            return failed("timeout", f"no result within {time_limit(call):g} s{waited}", retryable=True,
                          result=await self._last_words())
        finally:
            if not ended or self._made.cleanup:
                await self._stop()

    # -- beginning ---------------------------------------------------------------------

    async def _start(self) -> None:
        job = await self._created()
        self._uid, self._unsure = job["metadata"]["uid"], False
        change: dict[str, Any] = {"metadata": {"uid": self._uid, "annotations": {WATCHER: self._me}}}
        if job["spec"].get("suspend"):
            for kind, part in self._made.parts.items():
                await self._put(kind, owned(part, job))
            change["spec"] = {"suspend": False}
        elif job["metadata"].get("annotations", {}).get(WATCHER) == self._me:
            return
        try:
            await patiently(lambda: self._api.patch("jobs", self._made.name, change))
        except ApiError as error:
            raise (Gone() if error.status in (404, 409, 410) else error) from None

    async def _created(self) -> dict[str, Any]:
        """The job of this call: a new one, or the one that is there."""
        meta = {**self._made.job["metadata"], "annotations": {CALL: self._made.key, WATCHER: self._me}}
        manifest = {**self._made.job, "metadata": meta}
        while True:
            self._unsure = True
            try:
                return await patiently(lambda: self._api.create("jobs", manifest))
            except ApiError as error:
                self._unsure = error.transient
                if error.status != 409:
                    raise
            with suppress(_NoJob):
                job = await self._get()
                if job["metadata"].get("annotations", {}).get(CALL) != self._made.key:
                    raise BadCall(f"there is a job {self._made.name} that is not of this call")
                if not job["metadata"].get("deletionTimestamp"):
                    return job
            await asyncio.sleep(POLL_S)

    async def _put(self, kind: str, part: dict[str, Any]) -> None:
        """One that is there may belong to an earlier job of this name, and would go with it."""
        if not await self._create(kind, part):
            await patiently(lambda: self._api.delete(kind, self._made.name))
            await self._create(kind, part)  # one that is there by now is another worker's for this very job

    async def _create(self, kind: str, part: dict[str, Any]) -> bool:
        """False: there is one of this name."""
        try:
            await patiently(lambda: self._api.create(kind, part))
        except ApiError as error:
            if error.status != 409:
                raise
            return False
        return True

    async def _get(self) -> dict[str, Any]:
        try:
            return await patiently(lambda: self._api.get("jobs", self._made.name))
        except ApiError as error:
            raise (_NoJob() if error.status in (404, 410) else error) from None

    # -- watching ----------------------------------------------------------------------

    async def _watch(self) -> State:
        """Looks until the job has ended. An API that is away for a while does not end a job that runs."""
        pause, stuck = min(POLL_S, self._max_poll), 0.0
        while True:
            with suppress(_Away):
                self._state = await self._look()
                stuck = (stuck or time.monotonic()) if self._state.phase == "stuck" else 0.0
                if stuck and time.monotonic() - stuck >= STUCK_S:
                    return msgspec.structs.replace(self._state, phase="hopeless")
                if self._state.phase not in ("waiting", "running", "stuck"):
                    return self._state
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, self._max_poll)

    async def _look(self) -> State:
        try:
            job = await self._api.get("jobs", self._made.name)
            pods = await self._api.find("pods", f"job-name={self._made.name}")
        except ApiError as error:
            if error.status in (404, 410):
                raise Gone from None
            raise (_Away() if error.transient else error) from None
        if job["metadata"]["uid"] != self._uid:
            raise Gone
        return kube_status.read(job, pods)

    async def _output(self) -> tuple[Log, str]:
        """What the pod wrote, and why that cannot be had."""
        if not self._state.pod or self._state.phase == "hopeless":
            return Log(), "" if self._state.phase == "hopeless" else "the pod is gone"
        try:
            return await patiently(lambda: self._api.log(self._state.pod, CONTAINER)), ""
        except ApiError as error:
            return Log(), str(error)

    # -- ending ------------------------------------------------------------------------

    async def _last_words(self) -> dict[str, Any] | None:
        if self._state.phase != "running":
            return None
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                return self._said(await self._api.log(self._state.pod, CONTAINER))
        return None

    async def _stop(self) -> None:
        """Deletes the job, unless another worker watches it by now. What cannot be deleted ends at its deadline."""
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(STOP_S):
                for _ in range(STOP_TRIES):
                    if await self._deleted():
                        return
                    await asyncio.sleep(POLL_S)

    async def _deleted(self) -> bool:
        try:
            job = await self._get()
            meta = job["metadata"]
            if meta.get("annotations", {}).get(WATCHER) != self._me:
                return True
            same = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
            await self._api.delete("jobs", self._made.name, same)
        except _NoJob:
            return not self._unsure
        except ApiError as error:
            if error.status != 409:  # it changed meanwhile
                raise
            return False
        return True

    def _outcome(self, call: Call, log: Log, problem: str) -> Outcome:
        state = self._state
        said = {**self._said(log), **({"output_error": problem} if problem else {})}
        if state.phase == "succeeded":
            if call.config.get("output") != "json":
                return ok(said)
            if not log.ended:
                raise TooLarge("the output is over the limit: its last line was not read")
            return _parsed(log.text(), said)
        why = f"{state.reason}: {state.message}".strip(": ")
        details = {"exit_code": state.exit_code, "reason": state.reason, "job_name": self._made.name}
        if state.phase == "hopeless":
            return failed("config", f"the pod cannot start: {why}", result=said, details=details)
        code = "" if state.exit_code is None else f", exit code {state.exit_code}"
        last = said["output"].strip()[-MESSAGE_TAIL:].strip()
        return failed("container", f"job {self._made.name} failed: {why}{code}" + (f": {last}" if last else ""),
                      retryable=state.disrupted, result=said, details=details)

    def _said(self, log: Log) -> dict[str, Any]:
        state, name, namespace = self._state, self._made.name, self._api.namespace
        return {
            "status": "completed" if state.phase == "succeeded" else "failed", "job_name": name,
            "pod_name": state.pod, "namespace": namespace, "exit_code": state.exit_code,
            "succeeded": state.succeeded, "failed": state.failed, "execution_time": state.seconds,
            "output": log.text(), "truncated": log.cut,
            "kubectl_logs": f"kubectl logs -n {namespace} job/{name}",
            "kubectl_describe": f"kubectl describe job -n {namespace} {name}",
        }


class _NoJob(Signal):
    """There is no such job."""


class _Away(Signal):
    """The API did not answer this time."""


def _parsed(text: str, said: dict[str, Any]) -> Outcome:
    """The last line that says something is the answer."""
    line = next((each for each in reversed(text.splitlines()) if each.strip()), "")
    try:
        return ok({**said, "data": msgspec.json.decode(line.encode())})
    except msgspec.DecodeError as error:
        return failed("decode", f"the last line of the output is not JSON: {error}", result=said)
