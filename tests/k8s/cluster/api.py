"""The API of the cluster as an administrator and a kubelet use it: one request at a time, in any thread."""

import json
import ssl
import urllib.error
import urllib.request
from typing import Any

TIMEOUT_S = 30.0
MERGE = "application/merge-patch+json"
GROUPS = {
    "deployments": "apps", "statefulsets": "apps", "replicasets": "apps", "jobs": "batch",
    "roles": "rbac.authorization.k8s.io", "rolebindings": "rbac.authorization.k8s.io",
}
Object = dict[str, Any]


class Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    def __init__(self, server: str, ca: str, token: str) -> None:
        self.server, self.ca, self.token = server, ca, token
        self._tls = ssl.create_default_context(cadata=ca)

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind, "Accept": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=self._tls) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode(errors="replace")[:500]) from None

    def list(self, kind: str, namespace: str = "", labels: str = "") -> list[Object]:
        found: list[Object] = self.ask("GET", path(kind, namespace) + f"?labelSelector={labels}")["items"]
        return found

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """None where there is none."""
        try:
            found: Object = self.ask("GET", path(kind, namespace, name))
        except Refused as error:
            if error.status == 404:
                return None
            raise
        return found

    def create(self, kind: str, namespace: str, body: Object) -> Object:
        made: Object = self.ask("POST", path(kind, namespace), body)
        return made

    def merge(self, kind: str, namespace: str, name: str, change: Object) -> Object:
        """`name` may have a subresource behind it."""
        changed: Object = self.ask("PATCH", path(kind, namespace, name), change, MERGE)
        return changed


def path(kind: str, namespace: str = "", name: str = "") -> str:
    group = f"/apis/{GROUPS[kind]}/v1" if kind in GROUPS else "/api/v1"
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"{group}{inside}/{kind}{'/' if name else ''}{name}"
