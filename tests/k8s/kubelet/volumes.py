"""The volumes of a Pod as folders of this machine. Secrets and ConfigMaps are looked at again while the Pod runs, as a
kubelet does, and a file is replaced as a whole.

A claim is a folder that stays when its Pod goes; whether a volume was bound to it is not asked."""

import base64
import os
from pathlib import Path
from typing import Any

from tests.k8s.cluster.api import Api, Object


class NotThereYet(Exception):
    """What a Pod needs and the cluster does not have: it waits."""


class Volumes:
    def __init__(self, api: Api, pod: Object, folder: Path, claims: Path) -> None:
        self._api, self._namespace, self._folder = api, pod["metadata"]["namespace"], folder
        self._claims, self._specs = claims, {each["name"]: each for each in pod["spec"].get("volumes", ())}

    def bring(self) -> None:
        """All of them, and what has changed. Raises NotThereYet."""
        for name, spec in self._specs.items():
            if (files := self._files(spec)) is not None:
                _write(self._folder / name, files)
            elif "hostPath" not in spec:
                self.place(name).mkdir(parents=True, exist_ok=True)

    def place(self, name: str) -> Path:
        match self._specs[name]:
            case {"persistentVolumeClaim": claim}:
                return self._claims / self._namespace / str(claim["claimName"])
            case {"hostPath": host}:
                return Path(host["path"])
        return self._folder / name

    def _files(self, spec: Object) -> dict[str, bytes] | None:
        """None: it has none of its own."""
        match spec:
            case {"secret": given}:
                return self._of("secrets", given["secretName"], given)
            case {"configMap": given}:
                return self._of("configmaps", given["name"], given)
            case {"projected": {"sources": sources}}:
                return {name: content for source in sources for name, content in self._projected(source).items()}
            case {"emptyDir": _} | {"persistentVolumeClaim": _} | {"hostPath": _}:
                return None
        raise AssertionError(f"this kubelet does not know the volume {spec}")

    def _projected(self, source: Object) -> dict[str, bytes]:
        match source:
            case {"secret": given}:
                return self._of("secrets", given["name"], given)
            case {"configMap": given}:
                return self._of("configmaps", given["name"], given)
        raise AssertionError(f"this kubelet does not know the source {source}")

    def _of(self, kind: str, name: str, given: Object) -> dict[str, bytes]:
        data = content(self._api, kind, self._namespace, name, optional=bool(given.get("optional")))
        items = given.get("items") or [{"key": key, "path": key} for key in data]
        if missing := [each["key"] for each in items if each["key"] not in data]:
            raise NotThereYet(f"{kind} {name} has no {missing[0]}")
        return {each["path"]: data[each["key"]] for each in items}


def content(api: Api, kind: str, namespace: str, name: str, *, optional: bool = False) -> dict[str, bytes]:
    found = api.get(kind, namespace, name)
    if found is None:
        if optional:
            return {}
        raise NotThereYet(f'{kind} "{name}" not found')
    data: dict[str, Any] = found.get("data") or {}
    return {key: base64.b64decode(text) if kind == "secrets" else text.encode() for key, text in data.items()}


def _write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        file = folder / name
        if not file.exists() or file.read_bytes() != data:
            half = folder / f"..{name}"
            half.write_bytes(data)
            os.replace(half, file)
    for file in folder.iterdir():
        if file.name not in files:
            file.unlink()
