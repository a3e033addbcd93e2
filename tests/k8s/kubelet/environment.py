"""The environment of a container: values, and what they are taken from."""

import re

from tests.k8s.cluster.api import Api, Object
from tests.k8s.cluster.plane import ADDRESS, PORT
from tests.k8s.kubelet.volumes import NotThereYet, content

_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]\Z")


def environment(api: Api, pod: Object, container: Object, address: str) -> dict[str, str]:
    """Raises NotThereYet."""
    if container.get("envFrom"):
        raise AssertionError("this kubelet does not know envFrom")
    # The API's address is there also without service links; no Service's other address can be reached here.
    found = {"KUBERNETES_SERVICE_HOST": ADDRESS, "KUBERNETES_SERVICE_PORT": str(PORT),
             "HOSTNAME": pod["metadata"]["name"]}
    for each in container.get("env", ()):
        value = each.get("value", "") if "valueFrom" not in each else _taken(api, pod, each["valueFrom"], address)
        if "$(" in value:
            raise AssertionError("this kubelet puts no variable into another")
        found[each["name"]] = value
    return found


def _taken(api: Api, pod: Object, source: Object, address: str) -> str:
    match source:
        case {"fieldRef": {"fieldPath": path}}:
            return field(pod, path, address)
        case {"secretKeyRef": given}:
            kind = "secrets"
        case {"configMapKeyRef": given}:
            kind = "configmaps"
        case _:
            raise AssertionError(f"this kubelet does not know {source}")
    data = content(api, kind, pod["metadata"]["namespace"], given["name"], optional=bool(given.get("optional")))
    if given["key"] not in data and not given.get("optional"):
        raise NotThereYet(f"{kind} {given['name']} has no {given['key']}")
    return data.get(given["key"], b"").decode()


def field(pod: Object, path: str, address: str) -> str:
    if keyed := _KEYED.match(path):
        return str(pod["metadata"].get(keyed[1], {}).get(keyed[2], ""))
    known = {
        "metadata.name": pod["metadata"]["name"], "metadata.namespace": pod["metadata"]["namespace"],
        "metadata.uid": pod["metadata"]["uid"], "spec.nodeName": pod["spec"].get("nodeName", ""),
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", ""),
        "status.podIP": address, "status.hostIP": ADDRESS,
    }
    return str(known[path])
