"""Pools on a Kubernetes API: the fake one, or with NOETL_TEST_KUBE a real one. Whatever a test looks at and prepares,
it does by HTTP as an administrator, so that the same stories are told of both.

NOETL_TEST_KUBE names a JSON file: `server`, `ca`, `namespace`, `admin_token`, and `token` and `user` of the account
that the pools service has. A controller manager has to run behind it; kubelets need not."""

import json
import os
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from msgspec import Struct

from services.pools.backends import Attended, Running
from services.pools.kubernetes.backend import KubernetesBackend
from services.pools.kubernetes.place import Place
from shared.dsl.documents.pools import Pool
from shared.engine.pools import reconcile as engine
from shared.engine.pools.reconcile import Seen, Start, Stop, Wanted
from shared.tools.kubernetes.access import Access
from tests.support.clock import MovedClock
from tests.support.servers.kube import NAMESPACE
from tests.support.servers.kube_workers import ADMIN, SERVICE, KubeWorkers
from tests.support.waiting import until

REAL = os.environ.get("NOETL_TEST_KUBE", "")
RELEASE = "contract"
EVERY_S = 0.5 if REAL else 0.02
WITHIN_S = 10.0  # for a request
# The Role of the pools service, and what `pools.create: true` of the chart adds to it.
ROLE = {("deployments/scale", "get"), ("deployments/scale", "patch"), ("pods", "list"), ("pods", "patch")}
CREATE = {("deployments", "create"), ("deployments", "patch"), ("deployments", "delete")}
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "template", "labels": {"app": "noetl"}},
    "spec": {
        "selector": {"matchLabels": {"app": "noetl"}},
        "template": {
            "metadata": {"labels": {"app": "noetl"}},
            "spec": {"containers": [{"name": "worker", "image": "noetl:1", "env": [
                {"name": "NOETL_POOL", "value": "template"}, {"name": "NOETL_LOG_LEVEL", "value": "info"},
                {"name": "NOETL_NATS_CREDS_FILE", "value": "/creds/__POOL__"}]}]},
        },
    },
}


class Server(Struct, frozen=True):
    address: str
    namespace: str
    admin: str
    token: str
    tls: ssl.SSLContext | None
    fake: KubeWorkers | None
    user: str = ""


class Cluster:
    """One pool, its Deployment, and the backend that looks after it."""

    def __init__(self, server: Server, session: aiohttp.ClientSession, folder: Path) -> None:
        self.server, self._session = server, session
        self.file = folder / "deployment.yaml"
        self.file.write_text(json.dumps(DEPLOYMENT))
        self.pool = Pool("etl", "kubernetes")
        self.template, self.deleting, self.forced, self.held = "r0", False, False, dict[str, int]()
        self.clock, self.within_s = MovedClock(), WITHIN_S
        self.backend = self.another()

    def another(self, *, create: bool = False) -> KubernetesBackend:
        """As the next leader has it, with the patience of `within_s` for each request."""
        server, place = self.server, Place(RELEASE, create, str(self.file))
        reach = Access(server.address, server.namespace, lambda: server.token, server.tls)
        self.backend = KubernetesBackend(place, self.clock, lambda: reach, every_s=EVERY_S, within_s=self.within_s)
        return self.backend

    @property
    def fake(self) -> KubeWorkers:
        assert self.server.fake is not None, "only the fake can do this"
        return self.server.fake

    @property
    def deployment(self) -> str:
        return f"{RELEASE}-worker-{self.pool.name}"

    # -- as an administrator

    async def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        headers = {"Authorization": f"Bearer {self.server.admin}", "Content-Type": kind}
        data = None if body is None else json.dumps(body)
        tls, url = self.server.tls if self.server.tls is not None else True, self.server.address + path
        async with self._session.request(method, url, headers=headers, data=data, ssl=tls) as got:
            found = json.loads(await got.read())
            return found if got.status < 300 else None

    def path(self, kind: str, name: str = "") -> str:
        group = {"deployments": "/apis/apps/v1", "roles": "/apis/rbac.authorization.k8s.io/v1",
                 "rolebindings": "/apis/rbac.authorization.k8s.io/v1"}.get(kind, "/api/v1")
        return f"{group}/namespaces/{self.server.namespace}/{kind}{'/' if name else ''}{name}"

    async def apply(self, kind: str, manifest: dict[str, Any], manager: str = "helm") -> None:
        path = self.path(kind, manifest["metadata"]["name"]) + f"?fieldManager={manager}&force=true"
        assert await self.ask("PATCH", path, manifest, "application/apply-patch+yaml") is not None, manifest

    async def allow(self, rules: Iterable[tuple[str, str]]) -> None:
        """What the service may do from now on."""
        if self.server.fake is not None:
            self.server.fake.rules = set(rules)
            return
        given = [{"apiGroups": ["apps" if resource.startswith("deployments") else ""], "resources": [resource],
                  "verbs": [verb]} for resource, verb in sorted(rules)]
        name, api = "contract-pools", "rbac.authorization.k8s.io"
        await self.apply("roles", {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": {"name": name},
                                   "rules": given})
        await self.apply("rolebindings", {
            "apiVersion": f"{api}/v1", "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": api, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": api, "kind": "User", "name": self.server.user}]})

    async def declare(self, replicas: int = 1) -> None:
        """As a chart does: a Deployment of the pool, which says no number; and then as many as there were."""
        made = json.loads(json.dumps(DEPLOYMENT).replace("__POOL__", self.pool.name))
        made["metadata"]["name"] = self.deployment
        labels = {"app": "noetl", "noetl.io/pool": self.pool.name}
        made["spec"]["selector"]["matchLabels"] = made["spec"]["template"]["metadata"]["labels"] = labels
        await self.apply("deployments", made)
        await self.scale(replicas)
        await until(self.names, "the Pods of the chart", so=lambda found: len(found) == replicas)

    async def scale(self, replicas: int) -> None:
        path = self.path("deployments", self.deployment) + "/scale"
        await self.ask("PATCH", path, {"spec": {"replicas": replicas}}, "application/merge-patch+json")

    async def found(self) -> Any:
        return await self.ask("GET", self.path("deployments", self.deployment))

    async def pods(self) -> list[dict[str, Any]]:
        listed = await self.ask("GET", self.path("pods") + "?labelSelector=noetl.io/pool")
        return [each for each in listed["items"] if each["metadata"]["labels"]["noetl.io/pool"] == self.pool.name
                and "deletionTimestamp" not in each["metadata"]]

    async def names(self) -> list[str]:
        return sorted(each["metadata"]["name"] for each in await self.pods())

    # -- as the reconciler

    def look(self) -> list[Running]:
        self.backend.attend(Attended(self.pool, self.template, self.held, self.forced, self.deleting))
        return list(self.backend.workers(self.pool.name))

    async def reconciled(self, workers: int, within_s: float = 20.0) -> None:
        """The pool is as wanted: asked for as the reconciler does. Workers are ready as soon as they are Pods."""
        wanted = Wanted(workers, self.template, deleting=self.deleting)

        def step() -> bool:
            running = self.look()
            seen = [Seen(each.status.name, each.template, bool(each.status.host),
                         self.held.get(each.status.host, 0), each.status.stopping) for each in running]
            if self.backend.missing(self.pool):
                return False
            for action in engine.decide(wanted, seen):
                match action:
                    case Start(count=count):
                        self.backend.start(self.pool, self.template, count)
                    case Stop(name=name, within_s=within):
                        self.backend.stop(name, within)
            return engine.settled(wanted, seen) and not [each for each in seen if each.stopping]

        await until(step, f"{workers} workers", within_s, every_s=EVERY_S / 2,
                    instead=lambda: (self.backend.missing(self.pool), self.look()))

    async def clean(self) -> None:
        await self.backend.close(0)
        await self.ask("DELETE", self.path("deployments", self.deployment),
                       {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})
        await until(self.pods, "no Pods", so=lambda found: not found)


def real() -> Server:
    given = json.loads(Path(REAL).read_text())
    tls = ssl.create_default_context(cadata=given["ca"])
    return Server(given["server"], given["namespace"], given["admin_token"], given["token"], tls, None, given["user"])


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Cluster]:
    fake = None if REAL else KubeWorkers()
    if fake is not None:
        await fake.start()
        server = Server(fake.address, NAMESPACE, ADMIN, SERVICE, None, fake)
    else:
        server = real()
    async with aiohttp.ClientSession() as session:
        one = Cluster(server, session, folder)
        try:
            await one.allow(ROLE)
            yield one
        finally:
            await one.clean()
            if fake is not None:
                await fake.close()
