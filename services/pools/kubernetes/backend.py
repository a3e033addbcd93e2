"""Workers as Pods of Deployments. One loop asks the API and does what was asked; the reconciler never waits for it.

1. *LIST instead of watch.* Every LIST_S the Pods of all pools are listed and each pool's scale is read; something that
   is asked for is done at once, after a fresh look. No watch is kept open, so none can be lost.
2. *The number of Pods is the scale's.* It is written with the version that was read, so that nobody's change is
   overwritten unseen; after a 409 it is read again. A Deployment that is applied never says it.
3. *Who goes.* Kubernetes picks the Pods when a Deployment gets smaller. Those that should go get the lowest cost before
   the scale is written, the others one by what their worker holds (`pods.py`), so that whoever else makes it smaller
   takes the idle ones. What is asked for while costs are written waits for the next round, for its own are not. And
   Pods that are not ready go first, whatever they cost: one counts as there when Kubernetes finds it ready.
4. *A restart needs no right to change Deployments.* Each Pod has a stamp of the restart that it came after. The
   reconciler replaces those of an earlier one: one more Pod, and when it is ready, one less of the old (`Watched`).
5. *Whose Deployment.* Of a pool that has an owner, or without `create`, only the scale and the notes on Pods are
   written. Otherwise the Deployment is made, changed and deleted here; where another manages a field of it, that is
   trouble, and overridden only for a pool that was taken over. A pool that is deleted takes its Deployment along where
   `create` allows it; otherwise that stays, with no Pods.
6. *Trouble stays with its pool.* An API that does not answer, or asks for patience, ends the round for all.
   What was known stays known, and the reconciler says `waiting` with the reason.
Nothing ends when this service does: Pods are the cluster's.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import structlog

from services.pools.backends import Attended, Running
from services.pools.kubernetes import manifest, pods
from services.pools.kubernetes.kube_api import REQUEST_S, KubeApi, opened
from services.pools.kubernetes.place import Place
from services.pools.kubernetes.watched import Watched
from shared.bus.ports import Clock
from shared.dsl.documents.pools import Pool
from shared.errors import Corrupt
from shared.runtime.service.supervisor import sleep_or_stop
from shared.tools.base.guard import BadCall
from shared.tools.kubernetes.access import Access, access
from shared.tools.kubernetes.api import ApiError

LIST_S = 5.0
CONFLICTS = 3  # of one change of scale, then at the next look
FORGET_S = 30.0  # after the last look of the reconciler at a pool, its Deployment is nobody's here
MAX_NOTES = 50  # written in one look, for each pool
log = structlog.get_logger()


class KubernetesBackend:
    def __init__(
        self, place: Place, clock: Clock, reach: Callable[[], Access] = lambda: access(None), *,
        every_s: float = LIST_S, within_s: float = REQUEST_S,
    ) -> None:
        """`reach` is asked at every look: certificate and namespace may change, as the token may at every request."""
        self._place, self._clock, self._reach, self._every_s, self._within_s = place, clock, reach, every_s, within_s
        self._watched: dict[str, Watched] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # What the reconciler asks

    def attend(self, look: Attended) -> None:
        name = look.pool.name
        watched = self._watched.get(name)
        if watched is None:
            watched = self._watched[name] = Watched(look, self._place.deployment(name))
            self._wake.set()
        if look.deleting and not watched.look.deleting:
            watched.removed = False
            self._wake.set()
        watched.look, watched.attended = look, self._clock.now()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def missing(self, pool: Pool) -> str:
        watched = self._watched.get(pool.name)
        if reason := self._place.unusable(pool.name):
            return reason
        if watched is None or watched.trouble:
            return watched.trouble if watched is not None else "it has not been looked at yet"
        if watched.scale is not None:
            return ""
        how = f"{pool.owner} makes it" if pool.owner else "NOETL_KUBE_CREATE lets the pools service make it"
        return f"there is no Deployment {watched.deployment}: {how}"

    def start(self, pool: Pool, template: str, count: int) -> None:
        self._ask(self._watched[pool.name], count)

    def stop(self, name: str, within_s: float) -> None:
        """Its Pod has the grace that its Deployment gives it."""
        for watched in self._watched.values():
            if watched.has(name):
                self._ask(watched, -1, name)

    def _ask(self, watched: Watched, more: int, *going: str) -> None:
        watched.ask(max(0, watched.replicas + more), *going)
        self._wake.set()

    def kill(self, name: str, why: str) -> None:
        raise AssertionError("a frozen worker on Kubernetes is its kubelet's to kill")

    def workers(self, pool: str) -> Sequence[Running]:
        watched = self._watched.get(pool)
        return watched.workers(removes=self._place.create) if watched is not None else ()

    def pools(self) -> Sequence[str]:
        """None that is ended when nobody wants it any more: a document that is lost ends no Deployment."""
        return ()

    async def close(self, within_s: float) -> None:
        """The next leader asks for itself."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self._watched.clear()

    # What the loop does

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            pause = await self.look()
            if pause > self._every_s:  # it asked for patience, whatever is wanted
                await asyncio.sleep(pause)
            else:
                await sleep_or_stop(self._wake, pause)

    async def look(self) -> float:
        """One round; how long until the next."""
        late = self._clock.now() - FORGET_S
        self._watched = {name: each for name, each in self._watched.items() if each.attended > late}
        watched = list(self._watched.values())
        try:
            async with opened(self._reach(), self._within_s) as api:
                await self._round(api, watched)
        except BadCall:
            self._trouble(watched, "the pools service does not run in a Kubernetes cluster")
        except ApiError as error:
            self._trouble(watched, str(error))
            return max(self._every_s, error.after_s)
        except Exception as error:  # it must not end the loop of all pools
            log.exception("kubernetes.failed")
            self._trouble(watched, f"the Kubernetes API could not be asked: {type(error).__name__}")
        return self._every_s

    async def _round(self, api: KubeApi, watched: Sequence[Watched]) -> None:
        templates = [each.look.template for each in watched]
        found = pods.read(await api.pods())
        text: str | None = None
        for each, template in zip(watched, templates, strict=True):
            try:
                if reason := self._place.unusable(each.look.pool.name):
                    raise Corrupt(reason)
                each.scale = await api.scale(each.deployment)
                each.saw([pod for pod in found if pod.deployment == each.deployment], template)
                if self._is_made_here(each) and not each.look.deleting:
                    text = text if text is not None else await self._template()
                    await self._make(api, each, text)
                await self._carry_out(api, each)
                each.trouble = ""
            except Corrupt as error:
                each.trouble = str(error)
            except ApiError as error:
                if not error.status or error.after_s:
                    raise
                self._trouble([each], str(error))

    def _trouble(self, watched: Sequence[Watched], text: str) -> None:
        for each in watched:
            if each.trouble != text:
                log.warning("kubernetes.waits", pool=each.look.pool.name, error=text)
            each.trouble = text

    def _is_made_here(self, watched: Watched) -> bool:
        return self._place.create and not watched.look.pool.owner

    async def _template(self) -> str:
        """Read at every look: the chart may have changed it."""
        file = self._place.template
        if not file:
            raise Corrupt("NOETL_KUBE_TEMPLATE is not set where the pools service runs: it has nothing to make "
                          "Deployments of")
        try:
            return await asyncio.to_thread(Path(file).read_text, encoding="utf-8")
        except (OSError, ValueError):
            raise Corrupt(f"the template of workers, {file}, cannot be read") from None

    async def _make(self, api: KubeApi, watched: Watched, text: str) -> None:
        made = manifest.deployment(manifest.read(text), watched.look.pool, watched.deployment)
        digest = hashlib.blake2b(msgspec.json.encode(made), digest_size=8).hexdigest()
        if watched.scale is not None and digest == watched.applied:
            return
        await api.apply(made, force=watched.look.forced)
        if watched.scale is None:
            log.info("kubernetes.made", pool=watched.look.pool.name, deployment=watched.deployment)
        watched.applied, watched.scale = digest, await api.scale(watched.deployment)

    async def _carry_out(self, api: KubeApi, watched: Watched) -> None:
        if watched.look.deleting and self._place.create:
            await api.remove(watched.deployment)
            watched.removed, watched.scale, watched.target = True, None, None
            return
        if watched.scale is None:
            return
        asked, target = watched.asked, watched.target
        for pod, notes in watched.notes()[:MAX_NOTES]:
            await _note(api, pod, notes)
        if target is not None and watched.asked == asked and target == watched.replicas:  # else at the next look
            await self._scale(api, watched, target)

    async def _scale(self, api: KubeApi, watched: Watched, wanted: int) -> None:
        for _ in range(CONFLICTS):
            known = watched.scale
            if known is None:
                return
            if known.replicas != wanted:
                try:
                    watched.scale = await api.set_scale(watched.deployment, wanted, known.version)
                    log.info("kubernetes.scaled", pool=watched.look.pool.name, replicas=wanted, before=known.replicas)
                except ApiError as error:
                    if error.status != 409:
                        raise
                    watched.scale = await api.scale(watched.deployment)
                    continue
            if watched.target == wanted:  # nothing else was asked meanwhile
                watched.target = None
            return


async def _note(api: KubeApi, pod: pods.Pod, notes: Mapping[str, str]) -> None:
    try:
        await api.annotate(pod.name, pod.uid, notes)
    except ApiError as error:
        if error.status not in (404, 409):  # it has gone, or another has its name
            raise
