"""A Kubernetes API with the job controller behind it, as far as jobs need: it takes no manifest the real one would
refuse, runs containers as functions, and deletes what belongs to what is deleted."""

import asyncio
import itertools
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import kubernetes_validate
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.support.servers.kube_controller import Container, Controller, Ended

__all__ = ["NAMESPACE", "TOKEN", "Container", "Ended", "Kube"]

TOKEN, NAMESPACE, VERSION = "a-token-of-tests", "work", "1.31"
KINDS = {"Job": "jobs", "Secret": "secrets", "ConfigMap": "configmaps"}
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")


class Refused(Exception):
    def __init__(self, status: int, reason: str, message: str = "") -> None:
        super().__init__(message or reason)
        self.status, self.reason = status, reason


class Kube:
    """`images` says what runs; `faults` are statuses that the next requests are answered with; `denied` are
    (method, kind) the account may not use; `requests` all there were."""

    def __init__(self) -> None:
        self.images: dict[str, Callable[[Container], Awaitable[Ended]]] = {}
        self.faults: list[int] = []
        self.denied: set[tuple[str, str]] = set()
        self.requests: list[tuple[str, str, Any]] = []
        self.deleted: list[str] = []
        self.tokens = {TOKEN}
        self.lag = 0.0  # before a job is made
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self._making: set[asyncio.Task[web.Response]] = set()
        self._versions = itertools.count(1)
        self._controller = Controller(self)

    # -- for tests ---------------------------------------------------------------------

    @property
    def credential(self) -> dict[str, Any]:
        return {"server": str(self.server.make_url("")).rstrip("/"), "token": TOKEN, "namespace": NAMESPACE}

    def made(self, kind: str) -> list[dict[str, Any]]:
        """What was created, as it was sent."""
        return [body for method, path, body in self.requests if method == "POST" and path.endswith(f"/{kind}")]

    def there(self, kind: str) -> list[dict[str, Any]]:
        return [each for (of, _), each in self.objects.items() if of == kind]

    async def start(self, **options: Any) -> None:
        app = web.Application(client_max_size=3 << 20, middlewares=[self._checked])
        for group, kinds in (("/apis/batch/v1", "jobs"), ("/api/v1", "secrets|configmaps|pods")):
            base = f"{group}/namespaces/{{namespace}}/{{kind:{kinds}}}"
            app.router.add_post(base, self._create)
            app.router.add_get(base, self._list)
            app.router.add_get(base + "/{name}", self._get)
            app.router.add_patch(base + "/{name}", self._patch)
            app.router.add_delete(base + "/{name}", self._delete)
        app.router.add_get("/api/v1/namespaces/{namespace}/{kind:pods}/{name}/log", self._log)
        self.server = TestServer(app, host="127.0.0.1")
        await self.server.start_server(**options)

    async def close(self) -> None:
        await self._controller.close()
        await self.server.close()

    # -- the store ---------------------------------------------------------------------

    def put(self, kind: str, found: dict[str, Any]) -> dict[str, Any]:
        found["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[kind, found["metadata"]["name"]] = found
        return found

    def remove(self, kind: str, name: str) -> None:
        """With all that it owns."""
        gone = self.objects.pop((kind, name), None)
        if gone is None:
            return
        self.deleted.append(f"{kind}/{name}")
        for (of, each), other in list(self.objects.items()):
            owners = other["metadata"].get("ownerReferences", ())
            if any(owner["uid"] == gone["metadata"]["uid"] for owner in owners):
                self.remove(of, each)

    def uid(self) -> str:
        return f"uid-{next(self._versions)}"

    # -- requests ----------------------------------------------------------------------

    @web.middleware
    async def _checked(self, request: web.Request, handler: Any) -> web.StreamResponse:
        data = await request.read()
        body = json.loads(data) if data else None
        self.requests.append((request.method, request.path, body))
        try:
            if self.faults and (status := self.faults.pop(0)):
                raise Refused(status, "Injected", "try again later")
            self._allowed(request)
            return await handler(request)
        except Refused as error:
            said = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": error.status,
                    "reason": error.reason, "message": str(error)}
            return web.json_response(said, status=error.status)

    def _allowed(self, request: web.Request) -> None:
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens:
            raise Refused(401, "Unauthorized")
        kind, namespace = request.match_info.get("kind", ""), request.match_info.get("namespace", "")
        if (request.method, kind) in self.denied:
            raise Refused(403, "Forbidden", f"{kind} is forbidden: cannot {request.method} in {namespace}")
        if kind and namespace != NAMESPACE:
            raise Refused(404, "NotFound", f'namespaces "{namespace}" not found')
        if request.can_read_body and not request.content_type.endswith("json"):
            raise Refused(415, "UnsupportedMediaType")

    async def _create(self, request: web.Request) -> web.Response:
        """Goes on also when nobody waits for the answer."""
        work = asyncio.create_task(self._made(await request.json(), request.match_info["kind"]))
        self._making.add(work)
        work.add_done_callback(self._making.discard)
        return await asyncio.shield(work)

    async def _made(self, body: dict[str, Any], kind: str) -> web.Response:
        check(body)
        meta = body["metadata"]
        await asyncio.sleep(self.lag if kind == "jobs" else 0)
        if KINDS[body["kind"]] != kind:
            raise Refused(400, "BadRequest", "the kind is not that of the address")
        if (kind, meta["name"]) in self.objects:
            raise Refused(409, "AlreadyExists", f'{kind} "{meta["name"]}" already exists')
        made = {**body, "metadata": {**meta, "uid": self.uid(), "namespace": NAMESPACE,
                                     "creationTimestamp": "2026-01-01T00:00:00Z"}}
        self.put(kind, made)
        if kind == "jobs":
            self._controller.see(made)
        return web.json_response(made, status=201)

    async def _list(self, request: web.Request) -> web.Response:
        wanted = dict(each.split("=", 1) for each in request.query.get("labelSelector", "").split(",") if each)
        items = [each for each in self.there(request.match_info["kind"])
                 if wanted.items() <= each["metadata"].get("labels", {}).items()]
        return web.json_response({"kind": "List", "apiVersion": "v1", "items": items})

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response(self._found(request))

    async def _patch(self, request: web.Request) -> web.Response:
        if request.content_type != "application/merge-patch+json":
            raise Refused(415, "UnsupportedMediaType")
        found, change = self._found(request), await request.json()
        meta = change.pop("metadata", {})
        if meta.get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
            raise Refused(409, "Conflict", "the uid is another")
        if not set(change.get("spec", {})) <= {"suspend"}:
            raise Refused(422, "Invalid", "field is immutable")
        found["metadata"].setdefault("annotations", {}).update(meta.get("annotations", {}))
        found["spec"] |= change.get("spec", {})
        self.put("jobs", found)
        self._controller.see(found)
        return web.json_response(found)

    async def _delete(self, request: web.Request) -> web.Response:
        found, options = self._found(request), await request.json() if request.can_read_body else {}
        if options and (options.get("kind"), options.get("propagationPolicy")) != ("DeleteOptions", "Background"):
            raise Refused(400, "BadRequest", "not what is expected here")
        for name, value in options.get("preconditions", {}).items():
            if found["metadata"][name] != value:
                raise Refused(409, "Conflict", f"the {name} is another")
        self.remove(request.match_info["kind"], request.match_info["name"])
        return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Success"})

    async def _log(self, request: web.Request) -> web.Response:
        pod = self._found(request)
        if request.query.get("container") != pod["spec"]["containers"][0]["name"]:
            raise Refused(400, "BadRequest", "container is not valid for pod")
        state = pod["status"]["containerStatuses"][0]["state"]
        if "waiting" in state:
            raise Refused(400, "BadRequest", "container is waiting to start")
        return web.Response(body=self._controller.logs.get(pod["metadata"]["name"], b""), content_type="text/plain")

    def _found(self, request: web.Request) -> dict[str, Any]:
        key = request.match_info["kind"], request.match_info["name"]
        if key not in self.objects:
            raise Refused(404, "NotFound", f'{key[0]} "{key[1]}" not found')
        return self.objects[key]


def check(body: dict[str, Any]) -> None:
    """As strict as the real one, and it takes no field it does not know."""
    try:
        kubernetes_validate.validate(body, VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        raise Refused(422, "Invalid", str(error).splitlines()[0]) from None
    name, labels = body["metadata"]["name"], body["metadata"].get("labels", {})
    if len(name) > 63 or not _NAME.match(name):
        raise Refused(422, "Invalid", f"metadata.name: {name}")
    for value in labels.values():
        if len(value) > 63 or not re.match(r"([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?\Z", value):
            raise Refused(422, "Invalid", f"a label's value: {value}")
    if sum(len(each.encode()) for each in {**body.get("data", {}), **body.get("stringData", {})}.values()) > 1 << 20:
        raise Refused(422, "Invalid", "Too long: must have at most 1048576 bytes")
