"""A Kubernetes API with Deployments and their Pods, and as much of its manners as a client of them meets: versions of
objects, server-side apply, the scale of a Deployment, pages, a Role verb by verb, and every kind of refusal."""

import asyncio
import itertools
import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.support.servers.kube import NAMESPACE, Refused, check
from tests.support.servers.kube_fields import Managers

ADMIN, SERVICE = "token-of-an-admin", "token-of-the-service"
COST = "controller.kubernetes.io/pod-deletion-cost"
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
HANG = -1  # instead of a status: nobody answers
Objects = dict[str, dict[str, Any]]


class KubeWorkers:
    """`rules`: (resource, verb) that the service may use. `faults`: at which of its requests, counted from 0, which
    status it gets instead of an answer; with `late`, it gets it after the request was carried out."""

    def __init__(self) -> None:
        self.rules: set[tuple[str, str]] = set()
        self.faults: dict[int, int] = {}
        self.late = False
        self.retry_after = "1"
        self.requests: list[tuple[str, str]] = []
        self.deployments: Objects = {}
        self.pods: Objects = {}
        self.tokens = {ADMIN, SERVICE}
        self.page = 500
        self.grace = True  # Pods that are deleted end at once; without it, when `finish` is called
        self.prompt = True  # Pods are ready at once; without it, when `probe` is called
        self.swift = True  # controllers act at once; without it, when `act` is called
        self.meanwhile: list[Callable[[], None]] = []  # called while the next annotations are written
        self._managers: dict[str, Managers] = {}
        self._versions, self._pods = itertools.count(1), itertools.count(1)
        self._hung = asyncio.Event()
        self._valid: list[Any] = []

    async def start(self, **options: Any) -> None:
        app = web.Application(middlewares=[self._checked])
        deployments = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        app.router.add_patch(deployments, self._apply)
        app.router.add_get(deployments, self._get)
        app.router.add_delete(deployments, self._delete)
        app.router.add_get(deployments + "/scale", self._scale)
        app.router.add_patch(deployments + "/scale", self._set_scale)
        pods = "/api/v1/namespaces/{namespace}/pods"
        app.router.add_get(pods, self._list)
        app.router.add_patch(pods + "/{name}", self._annotate)
        self.server = TestServer(app, host="127.0.0.1")
        await self.server.start_server(**options)

    async def close(self) -> None:
        self._hung.set()
        await self.server.close()

    @property
    def address(self) -> str:
        return str(self.server.make_url("")).rstrip("/")

    def finish(self) -> None:
        """Pods that were told to end have ended."""
        self.pods = {name: pod for name, pod in self.pods.items() if "deletionTimestamp" not in pod["metadata"]}

    def probe(self) -> None:
        """Pods that run have been found ready."""
        for pod in self.pods.values():
            pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]

    def act(self) -> None:
        """Controllers have seen what is wanted now."""
        for name in self.deployments:
            self._settle(name, swift=True)

    # -- who may, and what goes wrong

    @web.middleware
    async def _checked(self, request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        try:
            token = request.headers.get("Authorization", "").removeprefix("Bearer ")
            if token not in self.tokens:
                raise Refused(401, "Unauthorized")
            fault = 0
            if token != ADMIN:
                fault = self.faults.get(len(self.requests), 0)
                self.requests.append((request.method, request.path))
            if fault and not self.late:
                await self._fail(fault)
            if token != ADMIN:
                self._allowed(request)
            answer: web.StreamResponse = await handler(request)
            if fault:
                await self._fail(fault)
            return answer
        except Refused as error:
            headers = {"Retry-After": self.retry_after} if error.status == 429 else {}
            said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": error.status,
                    "reason": error.reason, "message": str(error)}
            return web.json_response(said, status=error.status, headers=headers)

    async def _fail(self, fault: int) -> None:
        if fault == HANG:
            await self._hung.wait()
        raise Refused(fault, "Injected", "the object has been modified" if fault == 409 else "try again")

    def _allowed(self, request: web.Request) -> None:
        parts = request.path.split("/namespaces/")[1].split("/")
        resource = "/".join(parts[1:2] + parts[3:])
        verb = {"GET": "list" if len(parts) == 2 else "get", "PATCH": "patch", "DELETE": "delete"}[request.method]
        self._may(resource, verb)
        if request.content_type == APPLY and parts[2] not in self.deployments:
            self._may(resource, "create")

    def _may(self, resource: str, verb: str) -> None:
        if (resource, verb) not in self.rules:
            raise Refused(403, "Forbidden", f'{resource} is forbidden: User "pools" cannot {verb} it')

    # -- objects

    def _touch(self, found: dict[str, Any]) -> dict[str, Any]:
        found["metadata"]["resourceVersion"] = str(next(self._versions))
        return found

    def _found(self, kind: Objects, request: web.Request) -> dict[str, Any]:
        name = request.match_info["name"]
        if name not in kind or request.match_info["namespace"] != NAMESPACE:
            raise Refused(404, "NotFound", f'"{name}" not found')
        return kind[name]

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response(self._found(self.deployments, request))

    async def _apply(self, request: web.Request) -> web.Response:
        name, body = request.match_info["name"], json.loads(await request.read())
        manager, force = request.query.get("fieldManager", ""), request.query.get("force") == "true"
        if request.content_type != APPLY or not manager:
            raise Refused(415 if manager else 400, "BadRequest", "fieldManager is required for apply patch")
        if body not in self._valid:  # which takes a while to find out
            check(body)
            self._valid.append(deepcopy(body))
        managers = self._managers.setdefault(name, Managers())
        old = self.deployments.get(name)
        found = deepcopy(old) if old is not None else {"metadata": {"name": name, "uid": f"d{next(self._versions)}"}}
        if not force and (others := managers.conflicts(manager, found, body)):
            raise Refused(409, "Conflict", f"Apply failed with {len(others)} conflict: {others[0]}")
        if old is not None and old["spec"]["selector"] != body["spec"]["selector"]:
            raise Refused(422, "Invalid", "spec.selector: Invalid value: field is immutable")
        managers.apply(manager, found, body, force=force)
        found["spec"].setdefault("replicas", 1)
        self.deployments[name] = self._touch(found)
        self._settle(name, rolled=old is not None and old["spec"]["template"] != found["spec"]["template"])
        return web.json_response(found, status=201 if old is None else 200)

    async def _delete(self, request: web.Request) -> web.Response:
        found = self._found(self.deployments, request)
        options = json.loads(await request.read() or b"{}")
        if options.get("propagationPolicy") != "Background":
            raise Refused(400, "BadRequest", "Pods would stay")
        name = found["metadata"]["name"]
        del self.deployments[name], self._managers[name]
        for pod in self._pods_of(name):
            self._end(pod)
        return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Success"})

    async def _scale(self, request: web.Request) -> web.Response:
        return web.json_response(_scale(self._found(self.deployments, request)))

    async def _set_scale(self, request: web.Request) -> web.Response:
        found, body = self._found(self.deployments, request), json.loads(await request.read())
        if request.content_type != MERGE:
            raise Refused(415, "UnsupportedMediaType")
        version, replicas = body.get("metadata", {}).get("resourceVersion"), body["spec"]["replicas"]
        if version not in (None, found["metadata"]["resourceVersion"]):
            raise Refused(409, "Conflict", "the object has been modified; please apply your changes to the latest")
        if type(replicas) is not int or replicas < 0:
            raise Refused(422, "Invalid", "spec.replicas: must be greater than or equal to 0")
        found["spec"]["replicas"] = replicas
        name = found["metadata"]["name"]
        self._managers[name].takes("scale", ("spec", "replicas"))
        self._touch(found)
        self._settle(name)
        return web.json_response(_scale(found))

    async def _list(self, request: web.Request) -> web.Response:
        label = request.query.get("labelSelector", "")
        items = [pod for _, pod in sorted(self.pods.items()) if not label or label in pod["metadata"]["labels"]]
        begin, size = int(request.query.get("continue", "0")), min(self.page, int(request.query.get("limit", "500")))
        more = {"continue": str(begin + size)} if begin + size < len(items) else {}
        return web.json_response({"kind": "PodList", "apiVersion": "v1", "metadata": more,
                                  "items": items[begin:begin + size]})

    async def _annotate(self, request: web.Request) -> web.Response:
        pod, body = self._found(self.pods, request), json.loads(await request.read())
        if self.meanwhile:
            self.meanwhile.pop()()
        if body["metadata"].get("uid", pod["metadata"]["uid"]) != pod["metadata"]["uid"]:
            raise Refused(409, "Conflict", "Precondition failed: UID in precondition")
        pod["metadata"].setdefault("annotations", {}).update(body["metadata"]["annotations"])
        return web.json_response(self._touch(pod))

    # -- what its controllers do

    def _pods_of(self, deployment: str) -> list[dict[str, Any]]:
        return [pod for pod in self.pods.values() if pod["metadata"]["ownerReferences"][0]["name"] == f"{deployment}-rs"
                and "deletionTimestamp" not in pod["metadata"]]

    def _settle(self, name: str, *, rolled: bool = False, swift: bool = False) -> None:
        if not (self.swift or swift):
            return
        found = self.deployments[name]
        if rolled:
            for pod in self._pods_of(name):
                self._end(pod)
        there = self._pods_of(name)
        order = sorted(there, key=lambda pod: (_is_ready(pod), _cost(pod), -pod["number"]))
        for pod in order[: max(0, len(there) - found["spec"]["replicas"])]:
            self._end(pod)
        for _ in range(found["spec"]["replicas"] - len(there)):
            number = next(self._pods)
            meta = {"name": f"{name}-rs-{number:05d}", "uid": f"p{number}", "creationTimestamp": "2026-01-01T00:00:00Z",
                    "labels": dict(found["spec"]["template"]["metadata"]["labels"]),
                    "ownerReferences": [{"kind": "ReplicaSet", "name": f"{name}-rs", "uid": name}]}
            ready = [{"type": "Ready", "status": str(self.prompt)}]
            made = {"metadata": meta, "status": {"phase": "Running", "conditions": ready}, "number": number}
            self.pods[meta["name"]] = self._touch(made)

    def _end(self, pod: dict[str, Any]) -> None:
        if self.grace:
            self.pods.pop(pod["metadata"]["name"], None)
        else:
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"


def _is_ready(pod: dict[str, Any]) -> bool:
    """Those that are not go first, whatever they cost."""
    return {"type": "Ready", "status": "True"} in pod["status"]["conditions"]


def _cost(pod: dict[str, Any]) -> int:
    return int(pod["metadata"].get("annotations", {}).get(COST, "0"))


def _scale(found: dict[str, Any]) -> dict[str, Any]:
    meta = found["metadata"]
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": found["spec"]["replicas"]},
            "metadata": {"name": meta["name"], "resourceVersion": meta["resourceVersion"]}}
