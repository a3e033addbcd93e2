"""docs/nats-clients.md does what it says: its blocks are run as they stand, against a whole stack."""

import asyncio
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlparse

import pytest
import pytest_asyncio

from shared.dsl.compile import compile_playbook
from shared.events.request import derive_id
from shared.runtime.stores import catalog
from shared.tools.registry import specs
from tests.support.paths import DOCS, ROOT
from tests.support.running import Running, running

pytestmark = pytest.mark.asyncio(loop_scope="module")
PAGE = (DOCS / "nats-clients.md").read_text()
PACKAGE = "nats@2"
WITHIN_S = 60.0
SAID = 'completed {"count": 4, "lines": ["Hi, Ada!", "Hi, Grace!", "Hi, Edsger!", "Hi, Barbara!"]}'


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async with running(tmp_path_factory.mktemp("docs")) as here:
        source = (ROOT / "examples/hello.yaml").read_bytes()
        plan = compile_playbook(source, kinds=specs()).plan
        assert plan is not None
        await catalog.register(here.bus, source, plan)
        yield here


async def said(stack: Running, folder: Path, *command: str) -> tuple[int, str]:
    environment = {**os.environ, "NATS_URL": stack.stack.server.url_for("admin")}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
    try:
        async with asyncio.timeout(WITHIN_S):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, output.decode()


async def test_python(stack: Running, tmp_path: Path) -> None:
    """Also when the execution is over before it is asked for again: as a client that has died and is started again."""
    (tmp_path / "client.py").write_text(block("python"))
    for _ in range(2):
        code, output = await said(stack, tmp_path, sys.executable, "client.py")
        assert (code, output.strip()) == (0, SAID)


async def test_node(stack: Running, tmp_path: Path) -> None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not installed here")
    code, output = await said(stack, tmp_path, npm, "install", "--no-audit", "--no-fund", "--no-save", PACKAGE)
    if code:
        pytest.skip(f"npm cannot install {PACKAGE} here: {output.strip().splitlines()[-1]}")
    (tmp_path / "client.mjs").write_text(block("javascript"))
    for _ in range(2):
        code, output = await said(stack, tmp_path, node, "client.mjs")
        assert code == 0, output
        status, _, result = output.partition(" ")
        assert f"{status} {json.dumps(json.loads(result))}" == SAID


async def test_the_nats_command(stack: Running) -> None:
    """By what its lines are on the wire: the command itself is in no package that tests could install."""
    listens, asks, publishes, looks = [line.split() and shlex.split(line) for line in block("console").splitlines()]
    wire = await Wire.open(stack.stack.server.url_for("admin"))
    try:
        assert (listens[3], asks[3], publishes[3], looks[3]) == ("sub", "req", "pub", "req")
        await wire.subscribe(listens[4])
        await wire.subscribe("_INBOX.wire")
        await wire.publish(asks[4], asks[5], asks[7], reply="_INBOX.wire")
        _, answer = await wire.message()
        assert (answer["status"], answer["execution_id"]) == ("started", derive_id("id", "order-4713"))
        await wire.publish(publishes[4], publishes[5], publishes[7])
        ids = {derive_id("id", key) for key in ("order-4713", "order-4714")}
        ends = [end for _, end in [await wire.message() for _ in ids]]
        assert {end["execution_id"] for end in ends} == ids
        assert {end["status"] for end in ends} == {"completed"}
        await wire.publish(looks[4], looks[5].replace("ID", answer["execution_id"]), reply="_INBOX.wire")
        _, told = await wire.message()
        assert told in ends
        assert told["execution_id"] == answer["execution_id"]
    finally:
        wire.close()


class Wire:
    """The protocol of NATS as `nats` writes it, and nothing else."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer, self._sid = reader, writer, 0

    @classmethod
    async def open(cls, url: str) -> "Wire":
        at = urlparse(url)
        reader, writer = await asyncio.open_connection(at.hostname, at.port)
        await reader.readline()
        options = {"verbose": False, "headers": True, "user": at.username, "pass": at.password}
        writer.write(f"CONNECT {json.dumps(options)}\r\n".encode())
        return cls(reader, writer)

    async def subscribe(self, subject: str) -> None:
        self._sid += 1
        self._writer.write(f"SUB {subject} {self._sid}\r\n".encode())

    async def publish(self, subject: str, body: str, header: str = "", reply: str = "") -> None:
        lines = ["NATS/1.0", *([header.replace(":", ": ", 1)] if header else []), "", ""]
        block = "\r\n".join(lines).encode()
        data = body.encode()
        place = f"{subject} {reply}".rstrip()
        self._writer.write(f"HPUB {place} {len(block)} {len(block) + len(data)}\r\n".encode() + block + data + b"\r\n")

    async def message(self) -> tuple[str, dict[str, str]]:
        async with asyncio.timeout(WITHIN_S):
            while True:
                kind, *parts = (await self._reader.readline()).decode().split()
                if kind == "PING":
                    self._writer.write(b"PONG\r\n")
                if kind not in ("MSG", "HMSG"):
                    continue
                data = (await self._reader.readexactly(int(parts[-1]) + 2))[:-2]
                header = int(parts[-2]) if kind == "HMSG" else 0
                return parts[0], json.loads(data[header:])

    def close(self) -> None:
        self._writer.close()
