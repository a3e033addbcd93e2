"""A kubelet for tests, and as much of a scheduler and a name server as it takes: every Pod is its own, and a Service's
name is the addresses that its Endpoints have, in a file of hosts.

It asks for all Pods again and again, as our own service does, instead of watching them."""

import threading
from collections.abc import Iterable
from pathlib import Path

from tests.k8s.cluster.api import Api, Object, Refused, path
from tests.k8s.cluster.plane import CONTRACT
from tests.k8s.kubelet.life import GONE, Life

NODE = "here"
LOOK_S = 0.4
END_S = 60.0


class Node:
    """`troubles`: what it could not do. Logs of containers are in `folder/logs`."""

    def __init__(self, api: Api, folder: Path) -> None:
        self.api, self.folder = api, folder
        self.troubles: list[str] = []
        self._lives: dict[str, Life] = {}
        self._hosts: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)
        for each in ("logs", "hosts", "volumes", "claims"):
            (folder / each).mkdir()

    def start(self) -> "Node":
        self.api.create("nodes", "", {"metadata": {"name": NODE}})
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(END_S)
        for life in self._lives.values():
            life.vanish()
        for life in self._lives.values():
            life.join(END_S)

    def log(self, pod: str) -> str:
        """The end of what the Pods wrote whose names begin like this."""
        found = sorted(self.folder.glob(f"logs/{pod}*"), key=lambda file: file.stat().st_mtime)
        return "\n".join(f"--- {file.name}\n{file.read_text(errors='replace')[-3000:]}" for file in found[-4:])

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            try:
                self._look()
            except (OSError, ValueError) as error:  # the API does not answer, or not whole
                self.troubles.append(f"kubelet: {type(error).__name__}: {error}")
            except Refused as error:
                self.troubles.append(f"kubelet: {error}")

    def _look(self) -> None:
        self._write_hosts(self.api.list("endpoints"))
        there = set()
        for pod in self.api.list("pods"):
            meta = pod["metadata"]
            if meta["namespace"] == CONTRACT:
                continue
            if not pod["spec"].get("nodeName"):
                self._take(meta)
                continue
            there.add(meta["uid"])
            if meta["uid"] not in self._lives:
                life = Life(self.api, pod, self.folder, self._hosts_of(meta["namespace"]), self.troubles.append)
                self._lives[meta["uid"]] = life
                life.start()
            self._lives[meta["uid"]].see(pod)
        for uid in self._lives.keys() - there:
            self._lives.pop(uid).vanish()

    def _take(self, meta: Object) -> None:
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]},
                   "target": {"apiVersion": "v1", "kind": "Node", "name": NODE}}
        try:
            self.api.ask("POST", path("pods", meta["namespace"], f"{meta['name']}/binding"), binding)
        except Refused as error:
            if error.status not in GONE:
                raise

    # -- names

    def _hosts_of(self, namespace: str) -> Path:
        file = self.folder / "hosts" / namespace
        if not file.exists():
            file.write_text(self._hosts.get(namespace, "127.0.0.1 localhost\n"))
        return file

    def _write_hosts(self, endpoints: Iterable[Object]) -> None:
        """Into the same files, which the Pods have mounted."""
        known = [(each["metadata"]["namespace"], each["metadata"]["name"], address["ip"]) for each in endpoints
                 for subset in each.get("subsets") or () for address in subset.get("addresses", ())]
        for namespace in {each[0] for each in known} | set(self._hosts):
            lines = ["127.0.0.1 localhost", *(
                f"{ip} {name}.{of} {name}.{of}.svc{f' {name}' if of == namespace else ''}" for of, name, ip in known)]
            text = "\n".join(lines) + "\n"
            if self._hosts.get(namespace) != text:
                self._hosts[namespace] = text
                with self._hosts_of(namespace).open("r+", encoding="utf-8") as file:
                    file.write(text)
                    file.truncate()
