"""noetlctl admin nats-auth on a broker that runs: told at once, and kept as pools come and go."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shared.bus import topology
from shared.bus.streams import ensure
from shared.dsl.documents.compile import compile_pool
from shared.dsl.documents.pools import plain
from shared.runtime.stores import pools
from tests.support.cli import environment, run
from tests.support.paths import ROOT
from tests.support.servers.keyed_nats import CLOSED, KeyedNats, Login, keyring, running
from tests.support.waiting import until

SOON_S = 30.0


def auth(server: KeyedNats, *args: str) -> None:
    done = run("admin", "nats-auth", *args, "--out", str(server.place), cwd=server.place, NOETL_NATS_URL=server.url)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mode", ["accounts", "jwt"])
async def test_a_pool_and_a_key_are_told_at_once(mode: str, tmp_path: Path) -> None:
    with running(KeyedNats(tmp_path, keyring(mode, tmp_path))) as server:
        await asyncio.to_thread(auth, server, "ensure", "--pool", "etl", "--apply")
        worker, before = server.client("worker_etl"), server.keys
        await asyncio.to_thread(auth, server, "rotate", "--pool", "etl", "--apply")
        await until(worker.flush, "the old key's connection is closed", SOON_S, so=lambda said: CLOSED in said)
        with pytest.raises(Login):
            server.client("worker_etl", before)
        server.client("worker_etl")
        await asyncio.to_thread(auth, server, "ensure", "--without", "etl", "--apply")
        assert server.keys.pools == ("default", "gpu")


async def test_it_follows_the_documents_of_pools(tmp_path: Path) -> None:
    with running(KeyedNats(tmp_path, keyring("jwt", tmp_path, ("default",)))) as server:
        admin = await server.bus("admin")
        await ensure(admin, topology.wanted(partitions=1))
        command = [sys.executable, "-m", "services.cli", "admin", "nats-auth", "ensure", "--apply", "--follow"]
        environ = environment(NOETL_NATS_URL=server.url)
        keeper = await asyncio.create_subprocess_exec(
            *command, "--out", str(tmp_path), cwd=ROOT, env=environ, stdout=subprocess.DEVNULL
        )
        try:
            source = plain("etl", 1)
            document = compile_pool(source).document
            assert document is not None
            await pools.apply(admin, document, source, "ada", time.time())
            await until(lambda: "worker_etl.creds" in os.listdir(tmp_path), "the pool has a key", SOON_S)
            await until(lambda: server.client("worker_etl"), "and an account", SOON_S, despite=Login)
            worker = await server.bus("worker_etl")
            await until(lambda: worker.time(), "that reaches the engine", SOON_S)
            await worker.close()
            await pools.delete(admin, "etl")
            await until(lambda: server.keys.pools == ("default",), "it goes with its document", SOON_S)
        finally:
            keeper.send_signal(signal.SIGINT)
            await keeper.wait()
            await admin.close()
