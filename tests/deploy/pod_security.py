"""Kubernetes' Pod Security Standard `restricted`, as its documentation lists it: what is wrong with a Pod.

It says what an admission controller would, without one.
"""

from collections.abc import Iterator
from typing import Any

Pod = dict[str, Any]
VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret", "image",
}
SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
ADDED = {"NET_BIND_SERVICE"}
SECCOMP = {"RuntimeDefault", "Localhost"}
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def violations(pod: Pod) -> list[str]:
    """`pod` has metadata and spec; empty when it may run."""
    spec = pod["spec"]
    return [*_of_pod(pod, spec), *(said for each in _containers(spec) for said in _of_container(each, spec))]


def _containers(spec: Pod) -> list[Pod]:
    return [each for kind in ("initContainers", "containers", "ephemeralContainers") for each in spec.get(kind, ())]


def _of_pod(pod: Pod, spec: Pod) -> Iterator[str]:
    yield from (f"{key} is shared with the host" for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key))
    for volume in spec.get("volumes", ()):
        if not set(volume) - {"name"} <= VOLUMES:
            yield f"volume {volume['name']} is of a kind that is not allowed"
    security = spec.get("securityContext", {})
    for each in security.get("sysctls", ()):
        if each["name"] not in SYSCTLS:
            yield f"sysctl {each['name']}"
    if security.get("runAsUser") == 0:
        yield "the Pod runs as user 0"
    for name, profile in pod.get("metadata", {}).get("annotations", {}).items():
        if name.startswith(APPARMOR) and profile != "runtime/default" and not profile.startswith("localhost/"):
            yield f"AppArmor is {profile}"
    yield from _profiles("the Pod", security)


def _of_container(container: Pod, spec: Pod) -> Iterator[str]:
    name, own, whole = container["name"], container.get("securityContext", {}), spec.get("securityContext", {})
    if own.get("privileged"):
        yield f"{name} is privileged"
    if own.get("allowPrivilegeEscalation") is not False:
        yield f"{name} may gain privileges"
    if own.get("runAsNonRoot", whole.get("runAsNonRoot")) is not True:
        yield f"{name} may run as root"
    if own.get("runAsUser") == 0:
        yield f"{name} runs as user 0"
    capabilities = own.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", ()):
        yield f"{name} keeps capabilities"
    if extra := set(capabilities.get("add", ())) - ADDED:
        yield f"{name} adds capabilities {sorted(extra)}"
    if own.get("seccompProfile", whole.get("seccompProfile", {})).get("type") not in SECCOMP:
        yield f"{name} has no seccomp profile"
    if own.get("procMount", "Default") != "Default":
        yield f"{name} sees all of /proc"
    yield from (f"{name} takes the host's port {each['hostPort']}" for each in container.get("ports", ())
                if each.get("hostPort"))
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if any((container.get(probe) or {}).get(how, {}).get("host") for how in ("httpGet", "tcpSocket")):
            yield f"{name} probes another host"
    yield from _profiles(name, own)


def _profiles(name: str, security: Pod) -> Iterator[str]:
    linux = security.get("seLinuxOptions", {})
    if linux.get("type", "") not in SELINUX_TYPES or linux.get("user") or linux.get("role"):
        yield f"{name} chooses its SELinux label"
    if security.get("appArmorProfile", {}).get("type") == "Unconfined":
        yield f"{name} is not confined by AppArmor"
    if security.get("windowsOptions", {}).get("hostProcess"):
        yield f"{name} is a process of a Windows host"
    if security.get("seccompProfile", {}).get("type") == "Unconfined":
        yield f"{name} is not confined by seccomp"
