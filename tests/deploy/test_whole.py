"""The chart's parts together, without a cluster: the keys its Job makes, its broker, its bootstrap, and its services
with the commands and variables of their Pods, until an execution has ended."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.pools.kubernetes import manifest
from shared.bus.jetstream import connect
from shared.bus.login.files import LoginFiles
from shared.dsl.documents.compile import compile_pool
from shared.errors import NoetlError
from shared.events.subjects import inbox_prefix
from shared.runtime.embedded.nats_server import HOST, find_binary, free_port
from shared.runtime.service.secrets import SECRETS
from shared.runtime.service.settings import Settings, read_settings
from tests.deploy.helm import CHART, CI_VALUES, RELEASE, Document, documents, environment, of_kind, pods
from tests.deploy.secrets_api import SCRIPT, Api, load, served
from tests.support.waiting import until, wait_until

FULL = f"{RELEASE}-noetl"
CTL = (sys.executable, "-m", "services.cli")


class Release:
    """What is rendered, in folders of this machine."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.folder, self.mode = folder, mode
        self.documents = documents(None, "helm3", f"nats.auth.mode={mode}", "pools.enabled=false")
        self.keys, self._port, monitor = folder / "keys", free_port(), free_port()
        for each in ("etc", "data", "run", "pools"):
            (folder / each).mkdir()
        maps = of_kind(self.documents, "ConfigMap")
        self._moved = {"/etc/nats": folder / "etc", "/data": folder / "data", "/run/nats": folder / "run",
                       "0.0.0.0:4222": f"{HOST}:{self._port}", "0.0.0.0:8222": f"{HOST}:{monitor}",
                       f"{FULL}-nats:4222": f"{HOST}:{self._port}", "/etc/noetl/pools": folder / "pools"}
        (folder / "etc/nats.conf").write_text(self.moved(maps[f"{FULL}-nats"]["data"]["nats.conf"]))
        for name, text in maps[f"{FULL}-pool-documents"]["data"].items():
            (folder / "pools" / name).write_text(text)

    def moved(self, text: str) -> str:
        for inside, here in self._moved.items():
            text = text.replace(inside, str(here))
        return text

    def variables(self, pod: Document, user: str) -> dict[str, str]:
        own = {name: self.moved(value) for name, value in environment(pod["spec"]["containers"][0]).items()}
        for name, value in own.items():
            if value.startswith("/run/noetl/login/"):
                own[name] = str(self.file(user))
        return {**os.environ, **own, "NOETL_HEALTH_PORT": "0"}

    def file(self, user: str) -> Path:
        """By which the user shows who it is."""
        return self.keys / {"shared": "noetl.nk", "jwt": f"{user}.creds", "accounts": f"{user}.nk"}[self.mode]

    def job(self, name: str) -> Document:
        [found] = [each for key, each in of_kind(self.documents, "Job").items() if f"-{name}-" in key]
        return dict(found["spec"]["template"])

    def make_keys(self) -> None:
        variables = {**os.environ, **environment(self.job("keys")["spec"]["containers"][0])}
        where = ("--out", str(self.keys), "--resolver-dir", str(self.folder / "data/resolver"))
        subprocess.run([*CTL, "admin", "nats-auth", "ensure", *where], env=variables, check=True, capture_output=True)
        shutil.copy(self.keys / "server.conf", self.folder / "etc/server.conf")

    def bootstrap(self) -> str:
        command = self.job("bootstrap")["spec"]["containers"][0]["command"]
        assert command[0] == "noetlctl"
        return self.noetlctl(*map(self.moved, command[1:]))

    def noetlctl(self, *args: str) -> str:
        variables = self.variables(self.job("bootstrap"), "admin")
        done = subprocess.run([*CTL, *args], env=variables, check=False, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextlib.contextmanager
    def broker(self) -> Iterator[None]:
        with self.started("nats", [find_binary(), "-c", str(self.folder / "etc/nats.conf")], dict(os.environ)):
            wait_until((self.folder / "run/nats.pid").exists, "the broker runs", within_s=20,
                       instead=(self.folder / "nats.log").read_text)
            yield

    @contextlib.contextmanager
    def services(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for name, pod in pods(self.documents).items():
                labels = pod["metadata"]["labels"]
                component, pool = labels["app.kubernetes.io/component"], labels.get("noetl.io/pool")
                if name.startswith("Deployment/") and component != "accounts":
                    command = [sys.executable, *pod["spec"]["containers"][0]["command"][1:]]
                    variables = self.variables(pod, f"worker_{pool}" if pool else component)
                    stack.enter_context(self.started(component, command, variables))
            yield

    @contextlib.contextmanager
    def started(self, name: str, command: list[str], variables: dict[str, str]) -> Iterator[None]:
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(command, env=variables, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(40)


@pytest.mark.parametrize("mode", [
    "accounts", pytest.param("jwt", marks=pytest.mark.long), pytest.param("shared", marks=pytest.mark.long),
])
def test_an_execution_ends_on_what_the_chart_renders(tmp_path: Path, mode: str) -> None:
    release = Release(tmp_path, mode)
    release.make_keys()
    with release.broker():
        assert "made" in release.bootstrap()
        assert "made" not in release.bootstrap(), "what is there stays"
        with release.services():
            release.noetlctl("register", str(CHART / "files/test.yaml"))
            ended = release.noetlctl("execute", "noetl/helm-test", "--wait", "--timeout", "60", "-o", "json")
            assert msgspec.json.decode(ended)["result"] == {"total": 14}


FOLLOW = """
import importlib.util, pathlib, sys
spec = importlib.util.spec_from_file_location("keys", sys.argv[1])
keys = importlib.util.module_from_spec(spec)
spec.loader.exec_module(keys)
secrets = keys.Secrets(sys.argv[2], pathlib.Path(sys.argv[3]))
sys.exit(keys.follow(secrets, "users", "keyring", (sys.executable, "-m", "services.cli", *keys.FOLLOW[1:])))
"""
LATE = "apiVersion: noetl.io/v2\nkind: Pool\nmetadata: {name: late}\nspec: {backend: external}\n"


@pytest.mark.parametrize("mode", ["jwt", pytest.param("accounts", marks=pytest.mark.long)])
async def test_a_pool_that_is_made_later_gets_a_key_and_is_let_in(tmp_path: Path, mode: str) -> None:
    """By the Deployment `accounts`: its key is in the Secret, and the broker knows it."""
    release, api, account = Release(tmp_path, mode), Api(), tmp_path / "account"
    account.mkdir()
    release.make_keys()
    files = {file.name: file.read_bytes() for file in release.keys.iterdir()}
    (tmp_path / "late.yaml").write_text(LATE)
    late = release.file("worker_late")
    with served(api, account) as address, release.broker():
        load().Kept(load().Secrets(address, account), "users", "keyring").store(files)
        release.bootstrap()
        deployment = of_kind(release.documents, "Deployment")[f"{FULL}-accounts"]["spec"]["template"]
        variables = release.variables(deployment, "")
        command = [sys.executable, "-c", FOLLOW, str(SCRIPT), address, str(account)]
        with release.started("accounts", command, variables):
            await asyncio.to_thread(release.noetlctl, "pool", "apply", "--no-wait", "-f", str(tmp_path / "late.yaml"))

            async def is_let_in() -> bool:
                for name, content in api.files("users").items():  # as the kubelet does it, after a while
                    place = tmp_path / "etc" if name == "server.conf" else release.keys
                    (place / name).write_bytes(content)
                if not late.exists():
                    return False
                field = "creds" if mode == "jwt" else "nkey"
                worker = await connect(variables["NOETL_NATS_URL"], inbox_prefix=inbox_prefix("worker_late"),
                                       files=LoginFiles(**{field: str(late)}), within_s=2)
                try:
                    return await worker.time() > 0
                finally:
                    await worker.close()

            await until(is_let_in, "a worker of the new pool is let in", despite=(NoetlError,),
                        instead=(tmp_path / "accounts.log").read_text, every_s=0.2)
    kept = (release.file("router").name, release.file("admin").name)
    assert api.files("users").items() >= {name: files[name] for name in kept}.items()


@pytest.mark.parametrize("values", CI_VALUES, ids=lambda path: path.name)
def test_every_variable_is_a_setting_that_is_there(values: Path) -> None:
    known = {f"NOETL_{field.upper()}" for field in Settings.__struct_fields__}
    known |= {f"NOETL_{field.upper()}_FILE" for field in SECRETS}
    known.add("NOETL_BROKER_AUTH")  # of `noetlctl admin nats-auth`
    for pod in pods(documents(values)).values():
        for container in pod["spec"]["containers"]:
            own = environment(container)
            assert {name for name in own if name.startswith("NOETL_")} <= known
            files = {name for name in own if name.endswith("_FILE")}
            read_settings({name: value for name, value in own.items() if isinstance(value, str) and name not in files})


@pytest.mark.parametrize("values", CI_VALUES, ids=lambda path: path.name)
def test_every_pool_document_is_one(values: Path) -> None:
    [found] = [each["data"] for name, each in of_kind(documents(values), "ConfigMap").items()
               if name.endswith("-pool-documents")]
    for source in found.values():
        compiled = compile_pool(source)
        assert compiled.document is not None, compiled.diagnostics
        assert compiled.document.owner == f"helm/{RELEASE}"


def test_the_template_of_workers_makes_a_deployment_of_a_pool() -> None:
    made = documents(CHART / "ci/pools-values.yaml")
    text = of_kind(made, "ConfigMap")[f"{FULL}-worker-template"]["data"]["deployment.yaml"]
    source = "apiVersion: noetl.io/v2\nkind: Pool\nmetadata: {name: late}\nspec: {backend: kubernetes, slots: 7}\n"
    pool = compile_pool(source).document
    assert pool is not None
    late = manifest.deployment(manifest.read(text), pool, f"{FULL}-worker-late")
    own: Any = of_kind(made, "Deployment")[f"{FULL}-worker-default"]
    container = late["spec"]["template"]["spec"]["containers"][0]
    assert environment(container)["NOETL_SLOTS"] == "7"
    assert environment(container)["NOETL_POOL"] == "late"
    assert late["spec"]["template"]["spec"]["securityContext"] == own["spec"]["template"]["spec"]["securityContext"]
    [login] = [each for each in late["spec"]["template"]["spec"]["volumes"] if each["name"] == "login"]
    assert login["secret"]["items"] == [{"key": "worker_late.nk", "path": "user.nk"}]
