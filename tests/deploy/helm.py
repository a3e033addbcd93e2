"""The chart as Helm renders it. Helm 3 comes with the tests; `make test-chart` names a Helm 4 (HELM4_BINARY) too."""

import os
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.support.paths import ROOT

CHART = ROOT / "deploy/k8s/noetl"
CI_VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
RELEASE = "flows"
WITH_PODS = ("Deployment", "StatefulSet", "Job")
Document = dict[str, Any]


def binaries() -> dict[str, str]:
    """The Helms there are, by name."""
    beside = Path(sys.executable).with_name("helm")
    found = {"helm3": str(beside) if beside.exists() else shutil.which("helm") or ""}
    return found | ({"helm4": given} if (given := os.environ.get("HELM4_BINARY", "")) else {})


HELMS = binaries()


def run(helm: str, *args: str, within_s: float = 60) -> subprocess.CompletedProcess[str]:
    assert HELMS[helm], "no Helm 3: `make setup` brings it on Linux x86_64; elsewhere put one into PATH"
    return subprocess.run([HELMS[helm], *args], capture_output=True, text=True, check=False, timeout=within_s)


@cache
def text(values: Path | None = None, helm: str = "helm3", *sets: str) -> str:
    """What `helm template` prints."""
    chosen = ["-f", str(values)] if values else []
    given = [part for each in sets for part in ("--set", each)]
    done = run(helm, "template", RELEASE, str(CHART), "--namespace", "apps", *chosen, *given)
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def documents(values: Path | None = None, helm: str = "helm3", *sets: str) -> list[Document]:
    """For reading: they are the same ones each time."""
    return [each for each in yaml.load_all(text(values, helm, *sets), yaml.CSafeLoader) if each]


def refusal(*sets: str, helm: str = "helm3") -> str:
    """Why Helm does not render the chart with these."""
    given = [part for each in sets for part in ("--set", each)]
    done = run(helm, "template", RELEASE, str(CHART), *given)
    assert done.returncode != 0, f"it was rendered with {sets}"
    return done.stderr


def of_kind(found: list[Document], kind: str) -> dict[str, Document]:
    return {each["metadata"]["name"]: each for each in found if each["kind"] == kind}


def pods(found: list[Document]) -> dict[str, Document]:
    """Every Pod that comes of it, as {metadata, spec}, by kind and name."""
    made = {f"{each['kind']}/{each['metadata']['name']}": each["spec"]["template"]
            for each in found if each["kind"] in WITH_PODS}
    return made | {f"Pod/{name}": each for name, each in of_kind(found, "Pod").items()}


def environment(container: Document) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container.get("env", ())}


def project() -> Document:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"])
