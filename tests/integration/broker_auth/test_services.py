"""The services as processes on a broker of others, each with a file of its own: a client asks and hears the end."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shared.bus import topology
from shared.bus.streams import ensure
from shared.dsl.compile import compile_playbook
from shared.runtime.broker_auth import documents
from shared.runtime.stores import catalog
from shared.tools import registry
from tests.support.cli import environment
from tests.support.paths import ROOT
from tests.support.playbooks import head
from tests.support.servers.keyed_nats import KeyedNats, keyring, running
from tests.support.suite.long import long
from tests.support.waiting import until

GREET = """workflow:
  - step: start
    tool: {kind: python, args: {name: "{{ workload.name }}"}, code: "result = f'hello {name}'"}
"""
USERS = {"router": "router", "scheduler": "scheduler", "worker": "worker_default"}
WITHIN_S = 60.0


@contextmanager
def services(server: KeyedNats) -> Iterator[None]:
    setting = "NOETL_NATS_CREDS_FILE" if server.keys.mode == "jwt" else "NOETL_NATS_NKEY_FILE"
    started = []
    try:
        for name, user in USERS.items():
            file = str(server.place / documents.user_file(server.keys, user))
            environ = environment(NOETL_NATS_URL=server.url, NOETL_BROKER_AUTH=server.keys.mode, **{setting: file})
            with (server.place / f"{name}.log").open("wb") as log:
                command = [sys.executable, "-m", f"services.{name}"]
                started.append(subprocess.Popen(command, cwd=ROOT, env=environ, stderr=log))
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(WITHIN_S)


@pytest.mark.parametrize("mode", ["jwt", long("accounts")])
async def test_a_client_asks_and_hears_the_end(mode: str, tmp_path: Path) -> None:
    with running(KeyedNats(tmp_path, keyring(mode, tmp_path, ("default",), topology.PARTITIONS))) as server:
        admin, client = await server.bus("admin"), await server.bus("client")
        await ensure(admin, topology.wanted())
        source = (head("greet", "greet") + GREET).encode()
        plan = compile_playbook(source, kinds=registry.specs()).plan
        assert plan is not None
        await catalog.register(admin, source, plan)
        ends = await client.subscribe("noetl.ends.>")
        with services(server):
            asked = json.dumps({"path": "greet", "payload": {"name": "you"}}).encode()

            async def answer() -> bytes:
                return (await client.requests.one("noetl.api.execute", asked))[1]

            said = json.loads(await until(answer, "a router answers", WITHIN_S))
            assert said["status"] == "started", said
            end = json.loads(await until(ends.next, "the end is heard", WITHIN_S))
        assert (end["execution_id"], end["status"], end["result"]) == (said["execution_id"], "completed", "hello you")
        for bus in (admin, client):
            await bus.close()
        refused = [name for name in USERS if b"bus.refused" in (tmp_path / f"{name}.log").read_bytes()]
        assert refused == [], "somebody did what it may not"
