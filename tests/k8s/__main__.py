"""The chart and the pools backend on a real Kubernetes API: python -m tests.k8s [--keep FOLDER] [arguments of pytest]

`make test-k8s` calls it. The cluster lives in namespaces of the kernel that are made for it and need no root: its own
network, processes and mounts, which end with it. Needs unshare, nsenter, ip and bwrap, and user namespaces."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.k8s.cluster import plane
from tests.support.paths import ROOT
from tests.support.terminal import say

INSIDE = "NOETL_TEST_K8S_INSIDE"
NEEDS = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "bwrap": "bubblewrap"}
SPACES = ("--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
SUITES = ("tests/contract/kube", "tests/k8s")


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, help="etcd, kube-apiserver and kube-controller-manager are in it")
    parser.add_argument("--keep", type=Path, help="where logs of the cluster and its Pods stay")
    given, more = parser.parse_known_args(args)
    if lacking := [name for name in NEEDS if shutil.which(name) is None]:
        say(f"there is no {lacking[0]}: it is in the package {NEEDS[lacking[0]]}")
        return 1
    programs = given.programs or Path(subprocess.run(
        [ROOT / "tests/k8s/cluster/build.sh"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
    if INSIDE not in os.environ:
        again = [sys.executable, "-m", "tests.k8s", "--programs", str(programs), *args]
        os.execvpe("unshare", ["unshare", *SPACES, *again], {**os.environ, INSIDE: "yes"})
    with tempfile.TemporaryDirectory(prefix="noetl-k8s-") as place:
        folder = given.keep.resolve() if given.keep else Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        return run(programs, folder, more or list(SUITES))


def run(programs: Path, folder: Path, args: list[str]) -> int:
    plane.network()
    with plane.control_plane(programs, folder) as api:
        version = api.ask("GET", "/version")["gitVersion"]
        say(f"Kubernetes {version} at {api.server}")
        api.create("namespaces", "", {"metadata": {"name": plane.CONTRACT}})
        given = folder / "cluster.json"
        given.write_text(json.dumps({
            "server": api.server, "ca": api.ca, "namespace": plane.CONTRACT, "admin_token": plane.ADMIN,
            "token": plane.POOLS, "user": plane.POOLS_USER, "folder": str(folder)}))
        helm = {f"HELM_{each}_HOME": str(folder / "helm" / each.lower()) for each in ("CACHE", "CONFIG", "DATA")}
        environment = {**os.environ, **helm, "NOETL_TEST_KUBE": str(given), "KUBECONFIG": str(folder / "admin.conf")}
        command = [sys.executable, "-m", "pytest", *args]
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
