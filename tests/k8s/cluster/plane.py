"""A real control plane: etcd, the API server with RBAC and tokens of service accounts, and the controllers behind
Deployments, StatefulSets and Jobs. There is no scheduler: the kubelet of the tests takes every Pod.

It has a network of its own (`python -m tests.k8s` makes it), so its addresses are always the same."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.k8s.cluster.api import Api, Refused
from tests.support.servers.certificates import Issuer
from tests.support.waiting import wait_until

ADDRESS, PORT, NETWORK = "10.42.0.1", 6443, 16
SERVICES = "10.43.0.0/16"
SERVICE_OF_API = "10.43.0.1"
BRIDGE = "noetl0"
ADMIN, POOLS = "token-of-an-admin", "token-of-the-pools-service"
POOLS_USER = "contract-pools"
CONTRACT = "contract"  # a namespace whose Pods nobody starts
CONTROLLERS = ("deployment", "replicaset", "statefulset", "job", "endpoint", "garbagecollector", "namespace",
               "serviceaccount", "serviceaccount-token")
START_S = 90.0
END_S = 20.0


def network() -> None:
    for line in ("link set lo up", f"link add {BRIDGE} type bridge", f"addr add {ADDRESS}/{NETWORK} dev {BRIDGE}",
                 f"link set {BRIDGE} up"):
        subprocess.run(["ip", *line.split()], check=True)


@contextmanager
def control_plane(programs: Path, folder: Path) -> Iterator[Api]:
    issuer = Issuer(folder / "pki")
    certificate, key = issuer.issue("server", (ADDRESS, SERVICE_OF_API, "kubernetes.default.svc"))
    accounts = _key(folder / "pki/accounts.key")
    (folder / "tokens.csv").write_text(f'{ADMIN},admin,1,"system:masters"\n{POOLS},{POOLS_USER},2\n')
    api = Api(f"https://{ADDRESS}:{PORT}", issuer.ca.read_text(), ADMIN)
    with ExitStack() as stack:
        etcd = "http://127.0.0.1:2379"
        stack.enter_context(_running(folder, str(programs / "etcd"), {
            "name": "one", "data-dir": folder / "etcd", "listen-client-urls": etcd, "advertise-client-urls": etcd,
            "listen-peer-urls": "http://127.0.0.1:2380"}))
        stack.enter_context(_running(folder, str(programs / "kube-apiserver"), {
            "etcd-servers": etcd, "bind-address": ADDRESS, "advertise-address": ADDRESS, "secure-port": PORT,
            "insecure-port": 0, "tls-cert-file": certificate, "tls-private-key-file": key,
            "token-auth-file": folder / "tokens.csv", "authorization-mode": "RBAC",
            "service-account-key-file": accounts, "service-account-signing-key-file": accounts,
            "service-account-issuer": "https://kubernetes.default.svc", "service-cluster-ip-range": SERVICES,
            "cert-dir": folder / "pki/own"}))
        wait_until(lambda: api.ask("GET", "/version"), "the API server answers", START_S,
                   despite=(OSError, Refused, ValueError), instead=lambda: _end_of(folder / "kube-apiserver.log"))
        stack.enter_context(_running(folder, str(programs / "kube-controller-manager"), {
            "kubeconfig": kubeconfig(folder / "admin.conf", api), "controllers": ",".join(CONTROLLERS),
            "service-account-private-key-file": accounts, "root-ca-file": issuer.ca, "leader-elect": "false",
            "cert-dir": folder / "pki/own"}))
        wait_until(lambda: api.get("serviceaccounts", "default", "default"), "controllers work", START_S,
                   so=lambda found: found is not None and found.get("secrets"),
                   instead=lambda: _end_of(folder / "kube-controller-manager.log"))
        yield api


def kubeconfig(file: Path, api: Api) -> Path:
    ca = file.with_suffix(".crt")
    ca.write_text(api.ca)
    file.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": api.server, "certificate-authority": str(ca)}}],
        "users": [{"name": "it", "user": {"token": api.token}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}]}))
    return file


@contextmanager
def _running(folder: Path, program: str, flags: dict[str, object]) -> Iterator[None]:
    with (folder / f"{Path(program).name}.log").open("wb") as log:
        process = subprocess.Popen([program, *(f"--{name}={value}" for name, value in flags.items())],
                                   stdout=log, stderr=log, cwd=folder)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _key(file: Path) -> Path:
    made = rsa.generate_private_key(65537, 2048)
    file.write_bytes(made.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL,
                                        serialization.NoEncryption()))
    return file


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:]
