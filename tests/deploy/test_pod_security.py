"""The evaluator of Pods notices each thing that `restricted` forbids, and nothing else."""

import copy
from typing import Any

import pytest

from tests.deploy.pod_security import violations

GOOD: dict[str, Any] = {
    "metadata": {"annotations": {}},
    "spec": {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{
            "name": "main", "ports": [{"containerPort": 1}],
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }],
        "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "keys", "secret": {"secretName": "s"}}],
    },
}
CONTAINER = ("spec", "containers", 0)
OWN = (*CONTAINER, "securityContext")
POD = ("spec", "securityContext")
BAD: dict[str, tuple[tuple[str | int, ...], Any]] = {
    "the host's network": (("spec", "hostNetwork"), True),
    "the host's processes": (("spec", "hostPID"), True),
    "the host's memory": (("spec", "hostIPC"), True),
    "a folder of the host": (("spec", "volumes", 0), {"name": "root", "hostPath": {"path": "/"}}),
    "a volume over the network": (("spec", "volumes", 0), {"name": "far", "nfs": {"server": "s", "path": "/"}}),
    "a port of the host": ((*CONTAINER, "ports", 0, "hostPort"), 80),
    "privileged": ((*OWN, "privileged"), True),
    "escalation by silence": ((*OWN, "allowPrivilegeEscalation"), None),
    "root by silence": ((*POD, "runAsNonRoot"), None),
    "root against the Pod": ((*OWN, "runAsNonRoot"), False),
    "user 0": ((*OWN, "runAsUser"), 0),
    "user 0 of the Pod": ((*POD, "runAsUser"), 0),
    "capabilities kept": ((*OWN, "capabilities"), {"drop": ["NET_RAW"]}),
    "a capability added": ((*OWN, "capabilities", "add"), ["SYS_ADMIN"]),
    "no seccomp": ((*POD, "seccompProfile"), {}),
    "seccomp off": ((*OWN, "seccompProfile"), {"type": "Unconfined"}),
    "all of /proc": ((*OWN, "procMount"), "Unmasked"),
    "a label of SELinux": ((*OWN, "seLinuxOptions"), {"type": "spc_t"}),
    "AppArmor off": ((*OWN, "appArmorProfile"), {"type": "Unconfined"}),
    "a sysctl": ((*POD, "sysctls"), [{"name": "kernel.msgmax", "value": "1"}]),
    "an init container that is worse": (("spec", "initContainers"), [{"name": "first"}]),
}


def changed(path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    pod = copy.deepcopy(GOOD)
    place: Any = pod
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return pod


def test_a_pod_that_keeps_to_it_may_run() -> None:
    assert violations(GOOD) == []


@pytest.mark.parametrize("what", BAD)
def test_a_pod_that_does_not_is_noticed(what: str) -> None:
    assert violations(changed(*BAD[what]))


def test_a_port_below_1024_may_be_bound() -> None:
    assert violations(changed((*OWN, "capabilities", "add"), ["NET_BIND_SERVICE"])) == []
