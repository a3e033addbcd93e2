"""The broker of the chart: its configuration, as it is rendered, on a real server."""

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import pytest

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.streams import ensure
from shared.errors import NoetlError
from shared.runtime.embedded.nats_server import HOST, NatsServer, find_binary, free_port
from tests.deploy.helm import RELEASE, documents, of_kind
from tests.support.waiting import until, wait_until

FULL = f"{RELEASE}-noetl"
POOLS = ("default", "etl")


def rendered(*sets: str) -> dict[str, str]:
    return dict(of_kind(documents(None, "helm3", *sets), "ConfigMap")[f"{FULL}-nats"]["data"])


class Broker:
    """The container's folders are in `folder`: /etc/nats, /data and /run/nats."""

    def __init__(self, folder: Path, *sets: str) -> None:
        self.folder, self.port, self.monitor = folder, free_port(), free_port()
        for each in ("etc", "data", "run", "users"):
            (folder / each).mkdir()
        (folder / "etc/nats.conf").write_text(self.placed(rendered(*sets)["nats.conf"]), encoding="utf-8")
        self.admit(POOLS)
        self._process: subprocess.Popen[bytes] | None = None

    def placed(self, text: str) -> str:
        moved = (("/etc/nats", "etc"), ("/data", "data"), ("/run/nats", "run"))
        for inside, here in moved:
            text = text.replace(inside, str(self.folder / here))
        return text.replace("0.0.0.0:4222", f"{HOST}:{self.port}").replace("0.0.0.0:8222", f"{HOST}:{self.monitor}")

    def admit(self, pools: tuple[str, ...]) -> None:
        """The file that the Job of keys writes, here with passwords: who may do what."""
        users = NatsServer(self.folder / "users", pools=pools)
        self.passwords = users.passwords
        whole = msgspec.json.decode((self.folder / "users/nats.conf").read_bytes())
        part = {name: whole[name] for name in ("system_account", "accounts")}
        (self.folder / "etc/server.conf").write_bytes(msgspec.json.encode(part))

    def url(self, user: str = "admin") -> str:
        return f"nats://{user}:{self.passwords[user]}@{HOST}:{self.port}"

    def about(self, page: str) -> Any:
        with urlopen(f"http://{HOST}:{self.monitor}/{page}") as answer:
            return msgspec.json.decode(answer.read())

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            command = [find_binary(), "-c", str(self.folder / "etc/nats.conf")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(self.answers, "the broker answers", within_s=10)

    def answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), timeout=1) as probe:
            return bool(probe.recv(64))
        return False

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path)
    made.start()
    try:
        yield made
    finally:
        made.stop()


async def bootstrapped(bus: JetStreamBus) -> list[Any]:
    return list(await ensure(bus, topology.wanted(POOLS)))


async def test_all_that_the_engine_needs_is_made_on_it(broker: Broker) -> None:
    bus = await connect(broker.url())
    try:
        assert await bootstrapped(bus) == []
        assert await bootstrapped(bus) == [], "a second time nothing differs"
        info = await bus.requests.api(f"STREAM.INFO.{topology.COMMANDS}")
        assert info["config"]["storage"] == "memory"
    finally:
        await bus.close()
    jetstream = broker.about("varz")["jetstream"]["config"]
    assert jetstream["sync_always"] is True
    assert jetstream["max_memory"] == 256 * 1024**2  # as the server reads MB
    assert broker.about("healthz?js-server-only=true")["status"] == "ok"
    assert (broker.folder / "run/nats.pid").exists()


async def test_users_are_those_of_their_roles(broker: Broker) -> None:
    admin = await connect(broker.url())
    try:
        await bootstrapped(admin)
        worker = await connect(broker.url("worker_etl"), inbox_prefix="_INBOX_worker_etl")
        try:
            with pytest.raises(NoetlError):
                await worker.requests.api("STREAM.LIST")
        finally:
            await worker.close()
    finally:
        await admin.close()


async def test_a_broker_without_memory_for_the_queue_would_refuse_it(tmp_path: Path) -> None:
    """What the line in the configuration is for."""
    made = Broker(tmp_path)
    file = tmp_path / "etc/nats.conf"
    file.write_text(file.read_text(encoding="utf-8").replace("max_memory_store: 256MB", "max_memory_store: 0"))
    made.start()
    try:
        bus = await connect(made.url())
        try:
            with pytest.raises(NoetlError, match=r"memory|10028|resource"):
                await bootstrapped(bus)
        finally:
            await bus.close()
    finally:
        made.stop()


async def test_a_new_pool_is_let_in_without_a_restart(broker: Broker) -> None:
    """The container beside it has it read the configuration again; connections stay."""
    bus = await connect(broker.url())
    script = broker.placed(rendered()["reload.sh"]).replace("sleep 5", "sleep 0.2")
    (broker.folder / "reload.sh").write_text(script, encoding="utf-8")
    command = ("/bin/sh", "-eu", str(broker.folder / "reload.sh"))
    beside = await asyncio.create_subprocess_exec(*command, start_new_session=True)
    try:
        await bootstrapped(bus)
        await asyncio.sleep(1)  # it has looked at what is there
        began = broker.about("varz")["start"]
        broker.admit((*POOLS, "late"))

        async def let_in() -> bool:
            with contextlib.suppress(NoetlError):
                worker = await connect(broker.url("worker_late"), inbox_prefix="_INBOX_worker_late", within_s=1)
                try:
                    return await worker.time() > 0
                finally:
                    await worker.close()
            return False

        await until(let_in, "the new pool's worker is let in", within_s=20)
        assert broker.about("varz")["start"] == began
        assert broker.about("connz")["num_connections"] >= 1
        assert await bus.time() > 0
    finally:
        os.killpg(beside.pid, 9)
        await beside.wait()
        await bus.close()


def test_its_image_is_of_the_version_that_is_tested() -> None:
    said = subprocess.run([find_binary(), "--version"], capture_output=True, text=True, check=True).stdout
    version = said.split("v")[-1].strip()
    [stateful] = of_kind(documents(), "StatefulSet").values()
    assert stateful["spec"]["template"]["spec"]["containers"][0]["image"] == f"nats:{version}-alpine"


def test_it_keeps_its_volume_and_its_name() -> None:
    [stateful] = of_kind(documents(), "StatefulSet").values()
    [claim] = stateful["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi"
    service = of_kind(documents(), "Service")[f"{FULL}-nats"]
    assert stateful["spec"]["serviceName"] == service["metadata"]["name"]
    router = of_kind(documents(), "Deployment")[f"{FULL}-router"]["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "NOETL_NATS_URL", "value": f"nats://{FULL}-nats:4222"} in router["env"]
