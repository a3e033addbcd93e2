"""The requests to the Kubernetes API that pools need, and the verbs of the Role that each takes."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

from shared.tools.kubernetes.access import Access
from shared.tools.kubernetes.api import Api, ApiError

MANAGER = "noetl-pools"  # as which fields are owned
POOL_LABEL = "noetl.io/pool"
PAGE = 500  # Pods in an answer
MAX_PAGES = 100
REQUEST_S = 10.0
_APPLY = "application/apply-patch+yaml"


class Scale(Struct, frozen=True):
    """How many Pods a Deployment should have, and the version of it that says so."""

    replicas: int
    version: str


class KubeApi(Api):
    """Of the namespace that the service runs in."""

    async def pods(self) -> list[dict[str, Any]]:
        """Of all pools: `pods list`."""
        found: list[dict[str, Any]] = []
        params = {"labelSelector": POOL_LABEL, "limit": str(PAGE)}
        for _ in range(MAX_PAGES):
            answer = await self._json("GET", self._path("pods"), params=params)
            found += _objects(answer.get("items"))
            more = (answer.get("metadata") or {}).get("continue")
            if not more:
                break
            params = {**params, "continue": str(more)}
        return found

    async def annotate(self, pod: str, uid: str, annotations: Mapping[str, str]) -> None:
        """`pods patch`. The uid: another Pod under the name is not meant."""
        change = {"metadata": {"uid": uid, "annotations": dict(annotations)}}
        await self.patch("pods", pod, change)

    async def scale(self, deployment: str) -> Scale | None:
        """`deployments/scale get`. None: there is no such Deployment."""
        try:
            found = await self._json("GET", f"{self._path('deployments')}/{deployment}/scale")
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return _scale(found)

    async def set_scale(self, deployment: str, replicas: int, version: str) -> Scale:
        """`deployments/scale patch`. Refused with 409 when it changed since that version."""
        change = {"metadata": {"resourceVersion": version}, "spec": {"replicas": replicas}}
        return _scale(await self._json("PATCH", f"{self._path('deployments')}/{deployment}/scale", change))

    async def apply(self, manifest: Mapping[str, Any], *, force: bool) -> None:
        """`deployments patch`, and `deployments create` for a new one. Refused with 409 when another manages one of its
        fields, unless it is forced."""
        path = f"{self._path('deployments')}/{manifest['metadata']['name']}"
        params = {"fieldManager": MANAGER, "force": "true" if force else "false"}
        await self._json("PATCH", path, manifest, params, _APPLY)

    async def remove(self, deployment: str) -> None:
        """`deployments delete`, with its Pods, which have their grace."""
        await self.delete("deployments", deployment)


def _scale(found: Mapping[str, Any]) -> Scale:
    try:
        return Scale(int((found.get("spec") or {}).get("replicas") or 0), str(found["metadata"]["resourceVersion"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ApiError(502, "what answers is no Kubernetes API") from None


def _objects(items: Any) -> list[dict[str, Any]]:
    return [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []


@asynccontextmanager
async def opened(access: Access, within_s: float = REQUEST_S) -> AsyncIterator[KubeApi]:
    import aiohttp

    async with aiohttp.ClientSession(trust_env=False) as session:
        yield KubeApi(session, access, access.namespace, within_s)
