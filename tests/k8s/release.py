"""A release of the chart in a namespace of its own, and noetlctl as its administrator's, by what NOTES.txt says."""

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from tests.deploy import helm
from tests.k8s.cluster.api import Api, Object
from tests.k8s.kubelet.node import Node
from tests.support.pool_ctl import Ctl
from tests.support.waiting import wait_until

NAME = "flows"
FULL = f"{NAME}-noetl"
WAIT_S = 300.0
# What an API of 1.20 does not know is left out: PodDisruptionBudgets are policy/v1.
KUBE_VERSION = ('kubeVersion: ">=1.25.0-0"', 'kubeVersion: ">=1.20.0-0"')


def values(mode: str, ledger: Path) -> Object:
    """`ledger`: where tasks write down what they do, outside of their Pods."""
    return {
        "podDisruptionBudgets": False, "nats": {"auth": {"mode": mode}}, "pools": {"create": True},
        "workerDefaults": {
            "slots": 8, "pythonProcesses": 1,
            "extraVolumes": [{"name": "ledger", "hostPath": {"path": str(ledger)}}],
            "extraVolumeMounts": [{"name": "ledger", "mountPath": str(ledger)}],
        },
    }


class Release:
    def __init__(self, api: Api, node: Node, program: str, mode: str, folder: Path) -> None:
        self.api, self.node, self.program, self.mode, self.folder = api, node, program, mode, folder
        self.namespace = f"{program}-{mode}"
        self.context_file, self.ledger = folder / "context.json", folder / "ledger"
        self.ledger.mkdir()
        self._chart, self._values = folder / "chart", folder / "values.yaml"
        shutil.copytree(helm.CHART, self._chart)
        about = (self._chart / "Chart.yaml").read_text()
        assert KUBE_VERSION[0] in about
        (self._chart / "Chart.yaml").write_text(about.replace(*KUBE_VERSION))
        self._values.write_text(yaml.safe_dump(values(mode, self.ledger)))
        self.ctl = Ctl(self)

    # -- Helm

    def helm(self, *args: str, program: str = "") -> str:
        done = helm.run(program or self.program, *args, "--namespace", self.namespace, within_s=WAIT_S + 30)
        assert done.returncode == 0, f"helm {' '.join(args)}: {done.stderr}\n{self.state()}"
        return done.stdout

    def install(self) -> None:
        self.api.create("namespaces", "", {"metadata": {"name": self.namespace}})
        self.helm("install", NAME, str(self._chart), "-f", str(self._values), *_WAITING)
        self._write_context()

    def upgrade(self, *sets: str, program: str = "") -> None:
        given = [part for each in sets for part in ("--set", each)]
        self.helm("upgrade", NAME, str(self._chart), "-f", str(self._values), *given, *_WAITING, program=program)

    def rollback(self, program: str = "") -> None:
        self.helm("rollback", NAME, *_WAITING, program=program)

    # -- the cluster

    def found(self, kind: str, name: str) -> Object:
        found = self.api.get(kind, self.namespace, name)
        assert found is not None, f"there is no {kind} {name}"
        return found

    def replicas(self, pool: str) -> int:
        return int(self.found("deployments", f"{FULL}-worker-{pool}")["spec"]["replicas"])

    def pods(self, component: str = "", pool: str = "") -> list[Object]:
        """Those that are to stay."""
        wanted = {"app.kubernetes.io/component": component, "noetl.io/pool": pool}
        labels = ",".join(f"{name}={value}" for name, value in wanted.items() if value)
        return [each for each in self.api.list("pods", self.namespace, labels)
                if "deletionTimestamp" not in each["metadata"]]

    def state(self) -> str:
        """For whoever reads a failure."""
        pods = [f"{each['metadata']['name']} {each['status'].get('phase')} {each['status'].get('message', '')}"
                for each in self.api.list("pods", self.namespace)]
        return "\n".join([*pods, *self.node.troubles[-5:]])

    # -- noetlctl

    def _write_context(self) -> None:
        """The administrator's key is taken out of the Secret, and the broker is reached at its Pod."""
        file = {"accounts": "admin.nk", "jwt": "admin.creds", "shared": "noetl.nk"}[self.mode]
        key = self.folder / file
        key.touch(0o600)
        key.write_bytes(base64.b64decode(self.found("secrets", f"{FULL}-nats-users")["data"][file]))
        [broker] = self.pods("nats")
        named = "nats_creds_file" if self.mode == "jwt" else "nats_nkey_file"
        self.context_file.write_text(json.dumps(
            {"nats_url": f"nats://{broker['status']['podIP']}:4222", "users": {}, named: str(key)}))
        self.context_file.chmod(0o600)

    @property
    def context(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.context_file.read_text())
        return found

    def pool_is(self, name: str, **wanted: object) -> None:
        """What `pool describe` says of it, after a while."""
        wait_until(lambda: self.ctl.pool(name), f"{name} is {wanted}", 90.0,
                   so=lambda found: {key: found.get(key) for key in wanted} == wanted)


_WAITING = ("--wait", "--timeout", f"{WAIT_S:g}s", "--wait-for-jobs")
