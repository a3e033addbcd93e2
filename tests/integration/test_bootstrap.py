"""A broker that nobody prepared gets all that the engine needs; what stands in the way is said by its name."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from services.cli.admin import bootstrap
from services.cli.admin.bootstrap import Wish
from services.cli.console import exits
from services.cli.stack import context
from services.cli.stack.context import Context
from services.scheduler.consumers import Consumers
from shared.bus import pool_consumer
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.topology import COMMANDS, RESULTS, Provision
from shared.dsl.documents import pools as documents
from shared.dsl.documents.compile import compile_pool
from shared.dsl.documents.pools import Pool
from shared.errors import Refused
from shared.runtime.service.clock import SystemClock
from shared.runtime.stores import pools
from tests.support import cli
from tests.support.servers.configured_nats import ConfiguredNats

WISH = Wish(partitions=2, provision=Provision(), pools=("default",))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ConfiguredNats]:
    with ConfiguredNats(tmp_path / "server", {}) as server:
        yield server


@pytest.fixture
async def bus(server: ConfiguredNats) -> AsyncIterator[JetStreamBus]:
    bus = await connect(server.url)
    yield bus
    await bus.close()


def states(found: list[bootstrap.Thing]) -> set[str]:
    return {each.state for each in found}


def document(name: str, workers: int | None = None) -> tuple[Pool, str]:
    source = documents.plain(name, workers)
    pool = compile_pool(source).document
    assert pool is not None
    return pool, source


async def config(bus: JetStreamBus, stream: str) -> dict[str, Any]:
    found: dict[str, Any] = (await bus.requests.api(f"STREAM.INFO.{stream}"))["config"]
    return found


async def test_all_is_made_once_and_then_there(bus: JetStreamBus) -> None:
    wish = replace(WISH, documents=[document("etl", 2)])
    assert states(await bootstrap.look(bus, wish)) == {"missing"}
    made = await bootstrap.make(bus, wish)
    assert states(made) == {"made"}
    assert {each.kind for each in made} == {"stream", "bucket", "consumer", "pool"}
    assert {each.name for each in made if each.kind == "consumer"} == {
        "NOETL_REQUESTS/router", "NOETL_COMMANDS/default", "NOETL_COMMANDS/etl"}
    assert states(await bootstrap.make(bus, wish)) == {"there"}
    assert states(await bootstrap.look(bus, wish)) == {"there"}


async def test_what_differs_is_reported_and_changed_where_nothing_is_lost(bus: JetStreamBus) -> None:
    await bootstrap.make(bus, WISH)
    await bus.requests.api(f"STREAM.UPDATE.{RESULTS}", {**await config(bus, RESULTS), "max_age": int(3600e9)})
    sized = replace(WISH, provision=Provision(max_bytes={RESULTS: 1 << 30, COMMANDS: 1 << 20}))
    found = {each.name: each for each in await bootstrap.make(bus, sized)}
    assert (found[RESULTS].state, found[COMMANDS].state) == ("differs", "changed")
    assert {(drift.field, drift.applied) for drift in found[RESULTS].drift} == {("max_age", False), ("max_bytes", True)}
    assert (await config(bus, COMMANDS))["max_bytes"] == 1 << 20
    later = await bootstrap.make(bus, WISH)
    assert [each.name for each in later if each.state != "there"] == [RESULTS], "a size that nobody sets stays"


async def test_a_size_that_is_too_small_for_what_is_there_is_only_reported(bus: JetStreamBus) -> None:
    await bootstrap.make(bus, WISH)
    await bus.append("noetl.results.x.sha.0", b"x" * 1000)
    found = await bootstrap.make(bus, replace(WISH, provision=Provision(max_bytes={RESULTS: 100})))
    assert [(each.name, each.state) for each in found if each.state != "there"] == [(RESULTS, "differs")]


async def test_the_queue_is_made_again_as_the_settings_say(bus: JetStreamBus) -> None:
    provision = Provision(max_bytes={COMMANDS: 1 << 20})
    await bootstrap.make(bus, replace(WISH, provision=provision))
    await pool_consumer.discard(bus)
    await Consumers(bus, SystemClock(), ("default",), provision).make()
    assert (await config(bus, COMMANDS))["max_bytes"] == 1 << 20


async def test_another_number_of_partitions_is_refused(bus: JetStreamBus) -> None:
    await bootstrap.make(bus, WISH)
    with pytest.raises(Refused, match=r"NOETL_PARTITIONS is 1.*NOETL_EVENTS_1"):
        await bootstrap.make(bus, replace(WISH, partitions=1))
    assert "made" in states(await bootstrap.make(bus, replace(WISH, partitions=3))), "nothing is in them yet"
    await bus.append("noetl.events.0.x.router", b"{}")
    with pytest.raises(Refused, match=r"NOETL_PARTITIONS is 4.*NOETL_EVENTS_3"):
        await bootstrap.make(bus, replace(WISH, partitions=4))


async def test_a_consumer_that_was_lost_with_commands_is_left_to_the_schedulers(bus: JetStreamBus) -> None:
    await bootstrap.make(bus, WISH)
    await bus.append("noetl.commands.default.x.r", b"{}")
    await pool_consumer.remove(bus, "default")
    found = await bootstrap.make(bus, WISH)
    assert [each.name for each in found if each.state == "left"] == ["NOETL_COMMANDS/default"]
    assert await bus.consumer(COMMANDS, "default") is None


async def test_what_people_said_of_a_pool_stays(bus: JetStreamBus) -> None:
    wish = replace(WISH, documents=[document("etl")])
    await bootstrap.make(bus, wish)
    await pools.change(bus, "etl", "me", 1.0, lambda entry: replace(entry, workers=5))
    assert states(await bootstrap.make(bus, wish)) == {"there"}
    assert (await pools.find(bus, "etl"))[0].workers == 5
    await pools.change(bus, "etl", "me", 1.0, lambda entry: replace(entry, deleting=True))
    assert [each.state for each in await bootstrap.make(bus, wish) if each.kind == "pool"] == ["left"]


def admin(folder: Path, stack: Context, *args: str) -> cli.Result:
    return cli.inside("admin", "bootstrap", "--timeout", "20", *args, "--context", str(context.write(folder, stack)),
                      cwd=folder)


USERS = {"a": "b"}
WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "no memory": ({"jetstream": {"max_memory_store": 0}}, {}, ("10028", "max_memory_store")),
    "no JetStream": ({"jetstream": "disabled"}, {}, ("jetstream",)),
    "few streams": ({"accounts": {"A": {"jetstream": {"max_streams": 3}, "users": [{"user": "a", "password": "b"}]}}},
                    {"users": USERS, "user": "a"}, ("10027", "max_streams")),
    "an account without": ({"accounts": {"A": {"users": [{"user": "a", "password": "b"}]}}},
                           {"users": USERS, "user": "a"}, ("10039", "jetstream: enabled")),
    "small messages": ({"max_payload": 65536}, {}, ("max_payload",)),
    "one server": ({}, {"replicas": 3}, ("10074", "NOETL_REPLICAS", "cluster")),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_the_server_is_said_by_the_name_of_its_setting(name: str, tmp_path: Path) -> None:
    given, keys, words = WRONG[name]
    jetstream = given.get("jetstream", {})
    if isinstance(jetstream, dict):
        given = {**given, "jetstream": {"store_dir": str(tmp_path / "data"), **jetstream}}
    with ConfiguredNats(tmp_path / "server", given) as server:
        said = admin(tmp_path, Context(server.url, **{"users": {}, "user": "", **keys}))
    assert said.returncode == exits.ERROR
    assert all(word in said.stderr for word in words), said.stderr


def test_the_command_prints_what_it_did(server: ConfiguredNats, tmp_path: Path) -> None:
    (tmp_path / "pools").mkdir()
    (tmp_path / "pools" / "gpu.yaml").write_text(documents.plain("gpu", 1))
    (tmp_path / "pools" / "..data").mkdir()
    stack = Context(server.url, {}, user="")
    assert admin(tmp_path, stack, "--check").returncode == exits.ERROR
    made = admin(tmp_path, stack, "-f", "pools")
    assert made.returncode == exits.OK
    assert [line.split()[:3] for line in made.stdout.splitlines() if "gpu" in line] == [
        ["pool", "gpu", "made"], ["consumer", "NOETL_COMMANDS/gpu", "made"]]
    again = admin(tmp_path, replace(stack, max_bytes=("results=1GiB",)), "-f", "pools", "-o", "json")
    found = json.loads(again.stdout)
    assert (found["ok"], found["counts"]["changed"], found["max_bytes"]) == (True, 1, ["results=1GiB"])
    (changed,) = (each for each in found["things"] if each["state"] == "changed")
    assert changed["drift"] == [
        {"name": RESULTS, "field": "max_bytes", "wanted": 1 << 30, "found": -1, "applied": True}]
    assert admin(tmp_path, stack, "-f", "pools", "--check").returncode == exits.OK
