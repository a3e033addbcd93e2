"""Somebody has the credentials of the workers of one pool, and tries all of `forgeries.py` on executions of another:
none changes what becomes of them or of others, and `doctor` names each try that the broker let through."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.cli.verify.checker import Checker
from shared.bus import dead_letters, topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.permissions import worker_user
from shared.bus.streams import ensure
from shared.errors import NoetlError
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import Record, readable
from shared.events.stamp import stamp
from shared.events.subjects import inbox_prefix
from tests.chaos.driving.support import ONE, POOL, Cluster, register
from tests.security.forgeries import REFUSED, UNFITTING, UNREADABLE, Forgery, Target
from tests.support.cli import run
from tests.support.paths import ROOT

OTHER = "other"
SOON_S = 30.0
HELD = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: held, path: security/held}
workload: {gate: "", n: 0}
workflow:
  - step: start
    tool:
      - name: hold
        kind: python
        args: {gate: "{{ workload.gate }}", n: "{{ workload.n }}"}
        code: |
          import os, time
          while not os.path.exists(gate): time.sleep(0.05)
          result = n
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, args: {n: "{{ start }}"}}
"""
PLAIN = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: plain, path: security/plain}
workflow: [{step: start, tool: {kind: noop}}]
"""


class Two(Cluster):
    """Its workers are of one pool; the other has an account and nobody in it."""

    pools = (POOL, OTHER)

    async def _make_streams(self, bus: JetStreamBus) -> None:
        await ensure(bus, topology.wanted(self.pools))
        await register(bus, HELD.encode())
        await register(bus, PLAIN.encode())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Two(ONE) as running:
        yield running


async def _history(bus: JetStreamBus, execution_id: str) -> list[Record]:
    partition = subjects.partition_of(execution_id, topology.PARTITIONS)
    found = await bus.read(topology.events_stream(partition), [subjects.events_of(partition, execution_id)])
    return [record for _, record in readable(found, topology.PARTITIONS)]


async def _ended(bus: JetStreamBus, execution_id: str) -> str:
    async with asyncio.timeout(SOON_S):
        while True:
            for record in await _history(bus, execution_id):
                for event in record.events:
                    if isinstance(event, ev.PlaybookProcessed):
                        return event.status
            await asyncio.sleep(0.1)


async def _execute(bus: JetStreamBus, execution_id: str, path: str, **payload: Any) -> None:
    request = {"path": path, "execution_id": execution_id, "payload": payload}
    await bus.append(subjects.EXECUTE, json.dumps(request).encode())


async def _held(bus: JetStreamBus, execution_id: str) -> Target:
    """Once a worker of the other pool is in its first call."""
    async with asyncio.timeout(SOON_S):
        while True:
            for record in await _history(bus, execution_id):
                if record.lease is not None and any(isinstance(event, ev.TaskStarted) for event in record.events):
                    lease = record.lease
                    return Target(
                        execution_id, subjects.partition_of(execution_id, topology.PARTITIONS), lease.run_id,
                        lease.step, "hold", lease.worker, lease.epoch, POOL, OTHER, stamp(time.time()))
            await asyncio.sleep(0.1)


async def _told(bus: JetStreamBus, count: int) -> dict[str, str]:
    """Why a record was not taken, by its place, once there are so many."""
    async with asyncio.timeout(SOON_S):
        while True:
            found = [letter.note for letter in await dead_letters.latest(bus, 1000)]
            told = {note.place: note.reason for note in found if note is not None}
            if len(told) >= count:
                return told
            await asyncio.sleep(0.2)


def _doctor(cluster: Cluster) -> str:
    return run("doctor", "-o", "json", cwd=ROOT, NOETL_NATS_URL=cluster.nats.url, NOETL_NATS_USER="admin",
               NOETL_NATS_PASSWORD=cluster.nats.passwords["admin"], NOETL_POSTGRES_DSN=cluster.dsn).stdout


async def _tried(worker: JetStreamBus, forgery: Forgery, target: Target) -> bool:
    """Whether the broker let it through."""
    subject, data = forgery.build(target)
    try:
        if subject.startswith("$JS.API."):
            await worker.requests.one(subject, data)
        else:
            await worker.append(subject, data)
    except NoetlError:
        return False
    return True


def test_there_are_enough_of_them_and_no_two_are_the_same() -> None:
    names = [each.name for each in (*REFUSED, *UNREADABLE, *UNFITTING)]
    assert len(names) == len(set(names)) >= 60


@pytest.mark.parametrize("forgery", REFUSED, ids=lambda each: each.name)
async def test_the_broker_lets_no_worker_write_where_others_do(cluster: Cluster, forgery: Forgery) -> None:
    target = Target("x", 0, "start:1", "start", "hold", "w", (1, 1), POOL, OTHER, stamp(time.time()))
    worker = await connect(cluster.nats.url_for(worker_user(OTHER)), inbox_prefix=inbox_prefix(worker_user(OTHER)))
    try:
        assert not await _tried(worker, forgery, target)
    finally:
        await worker.close()


async def test_no_forgery_changes_what_becomes_of_an_execution_and_each_is_told(
    cluster: Cluster, tmp_path: Path
) -> None:
    bus = await cluster.connect()
    worker = await connect(cluster.nats.url_for(worker_user(OTHER)), inbox_prefix=inbox_prefix(worker_user(OTHER)))
    gate, pids = tmp_path / "gate", {name: process.pid for name, process in cluster.processes.items()}
    try:
        await _execute(bus, "victim", "security/held", gate=str(gate), n=7)
        target = await _held(bus, "victim")
        places = {}
        for forgery in (*UNREADABLE, *UNFITTING):
            subject, data = forgery.build(target)
            seq = await worker.append(subject, data)
            if subject.startswith(f"{subjects.EVENTS}."):
                partition = subjects.parse_event(subject).partition
                places[dead_letters.at_seq(topology.events_stream(partition), seq)] = forgery.name
        gate.touch()
        assert await _ended(bus, "victim") == "completed"
        values = [event.result.value for record in await _history(bus, "victim") for event in record.events
                  if isinstance(event, ev.StepDone) and record.lease is not None and record.lease.pool == POOL]
        assert values[0] == 7
        await _execute(bus, "after", "security/plain")
        assert await _ended(bus, "after") == "completed"
        assert {name: process.pid for name, process in cluster.processes.items()} == pids
        for name, process in cluster.processes.items():
            assert process.running, name
        told = await _told(bus, len(places))
        assert places.keys() <= told.keys(), [places[each] for each in places.keys() - told.keys()]
        said = await asyncio.to_thread(_doctor, cluster)
        assert [name for place, name in places.items() if place not in said] == []
        found = await Checker(bus, topology.PARTITIONS, None, 0.0).one("victim")
        assert found is not None
        assert {violation.rule for violation in found[0].violations} <= {"forged", "record"}
        assert len(found[0].violations) >= len(UNREADABLE)
        after = await Checker(bus, topology.PARTITIONS, None, 0.0).one("after")
        assert after is not None
        assert after[0].verdict == "verified"
    finally:
        await bus.close()
        await worker.close()
