"""doctor on a real broker: what is wrong is found, and looking changes nothing."""

import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from services.cli.doctor import access, clock, disk, durability, examination, lag, members, streams
from services.cli.doctor.finding import Finding
from services.cli.doctor.target import Patient
from services.cli.stack.broker_files import BrokerFiles
from services.cli.stack.context import Found
from shared.bus import dead_letters, jetstream, topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.membership import Membership
from shared.bus.streams import ensure
from shared.bus.topology import COMMANDS, DEAD, REQUESTS, RESULTS, events_stream
from shared.dsl.documents.compile import compile_pool
from shared.dsl.documents.pools import plain
from shared.events import model as ev
from shared.events import subjects
from shared.events.beat import Beat
from shared.events.record import Lease, Record, encode, subject_of
from shared.events.stamp import stamp
from shared.runtime.embedded.nats_server import NatsServer, free_port
from shared.runtime.service.clock import SystemClock
from shared.runtime.service.settings import Settings
from shared.runtime.stores import pools
from tests.support.servers.nats import POOLS, clear, made_anew
from tests.support.servers.own_nats import PASSWORD, OwnNats


@pytest.fixture
async def patient(nats_server: NatsServer, admin: JetStreamBus) -> Patient:
    """A broker as it should be, without services."""
    await clear(admin)
    await made_anew(admin, topology.wanted(POOLS))
    settings = Settings(
        nats_url=nats_server.url, nats_user="admin", nats_password=nats_server.passwords["admin"], pools=POOLS
    )
    return Patient(admin, settings, nats_server.passwords)


def named(findings: list[Finding], name: str) -> Finding:
    return next(finding for finding in findings if finding.name == name)


async def report(bus: JetStreamBus, at: float) -> None:
    lease = Lease("r", "s", (1, 1), "w", pool="default")
    record = Record("x", "worker", 1, stamp(at), (ev.StepStarted(),), lease=lease)
    await bus.append(subject_of(record, topology.PARTITIONS), encode(record))


async def test_a_missing_stream_and_a_missing_consumer_are_named(patient: Patient) -> None:
    assert {finding.status for finding in await streams.look(patient)} == {"ok"}
    await patient.bus.requests.api(f"CONSUMER.DELETE.{COMMANDS}.gpu")
    assert named(await streams.look(patient), "streams.missing").status == "warning"
    await patient.bus.requests.api(f"STREAM.DELETE.{RESULTS}")
    found = named(await streams.look(patient), "streams.missing")
    assert (found.status, RESULTS in found.found, "NOETL_COMMANDS/gpu" in found.found) == ("problem", True, True)


async def test_drift_is_told_by_its_weight_and_left_alone(patient: Patient) -> None:
    api = patient.bus.requests.api
    config = (await api(f"STREAM.INFO.{REQUESTS}"))["config"]
    await api(f"STREAM.UPDATE.{REQUESTS}", {**config, "duplicate_window": int(60e9)})
    found = named(await streams.look(patient), "streams.drift")
    assert (found.status, "duplicate_window is 60000000000" in found.found) == ("warning", True)
    await api(f"STREAM.UPDATE.{REQUESTS}", {**config, "max_msgs": 5})
    assert named(await streams.look(patient), "streams.drift").status == "problem"
    assert (await api(f"STREAM.INFO.{REQUESTS}"))["config"]["max_msgs"] == 5


async def test_an_event_stream_that_is_not_sealed_is_a_problem(patient: Patient) -> None:
    api, name = patient.bus.requests.api, events_stream(1)
    config = (await api(f"STREAM.INFO.{name}"))["config"]
    await api(f"STREAM.DELETE.{name}")
    await api(f"STREAM.CREATE.{name}", {**config, "deny_delete": False, "deny_purge": False})
    found = named(await streams.look(patient), "streams.drift")
    assert (found.status, "deny_delete is False, wanted True" in found.found) == ("problem", True)


async def test_streams_of_other_partitions_are_a_problem(patient: Patient) -> None:
    await patient.bus.requests.api("STREAM.CREATE.NOETL_EVENTS_9", {
        "name": "NOETL_EVENTS_9", "subjects": ["noetl.events.9.*.*"], "storage": "memory"})  # fmt: skip
    assert named(await streams.look(patient), "streams.partitions").status == "problem"


async def test_every_user_has_its_rights_and_a_probe_stores_nothing(patient: Patient) -> None:
    (found,) = await access.look(patient)
    assert (found.status, "7 users" in found.found) == ("ok", True), found
    assert await patient.bus.last_seq(events_stream(0)) == 0
    assert await patient.bus.last_seq(COMMANDS) == 0


async def test_a_worker_with_all_rights_is_a_problem_and_a_probe_stores_nothing(tmp_path: Path) -> None:
    server = OwnNats(tmp_path)
    config = msgspec.json.decode((tmp_path / "nats.conf").read_bytes())
    config["authorization"]["users"] = [{"user": "worker_default", "password": PASSWORD}]
    (tmp_path / "nats.conf").write_bytes(msgspec.json.encode(config))
    server.start()
    try:
        bus = await connect(server.url, user="worker_default", password=PASSWORD)
        await ensure(bus, topology.wanted())
        patient = Patient(bus, Settings(nats_url=server.url), {"worker_default": PASSWORD})
        (found,) = await access.look(patient)
        assert found.status == "problem"
        assert "worker_default may use noetl.events.0.doctor-probe.router" in found.found
        assert [await bus.last_seq(stream) for stream in (events_stream(0), COMMANDS, REQUESTS)] == [0, 0, 0]
        await bus.close()
    finally:
        server.stop()


async def test_without_passwords_permissions_are_not_looked_at(patient: Patient) -> None:
    patient.users = {}
    assert [finding.status for finding in await access.look(patient)] == ["skipped"]


async def test_what_nobody_takes_is_lag(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    bus = patient.bus
    await report(bus, time.time())
    partition = subjects.partition_of("x", topology.PARTITIONS)
    await bus.append(subjects.event(partition, "x", "router"), b"the router does not wait for its own")
    await bus.append(subjects.EXECUTE, b"{}")
    await dead_letters.bury(bus, "requests", "NOETL_REQUESTS/1", "no path", b"{}")
    found = await lag.look(patient)
    assert named(found, "lag.router").found.startswith("1 records wait")
    assert named(found, "lag.scheduler").found.startswith("1 records wait")
    assert named(found, "lag.requests").found.startswith("1 requests wait")
    assert (named(found, "lag.dead_letters").status, named(found, "lag.dead_letters").found) == (
        "warning", "dead letters: 1 of requests; the latest: requests NOETL_REQUESTS/1: no path",
    )  # fmt: skip
    monkeypatch.setattr(lag, "SLOW_S", 0.0)
    monkeypatch.setattr(lag, "STUCK_S", 0.0)
    late = {finding.name for finding in await lag.look(patient) if finding.status == "problem"}
    assert late == {"lag.router", "lag.scheduler", "lag.requests"}
    await bus.kv_put(topology.CURSORS, f"router.{partition}", b'{"seq": 1}')
    assert named(await lag.look(patient), "lag.router").found == "0 records wait"
    await bus.kv_put(topology.CURSORS, f"router.{partition}", b'{"seq": 99}')
    ahead = named(await lag.look(patient), "lag.router")
    assert (ahead.status, "beyond the log" in ahead.found) == ("problem", True)


async def test_a_pool_with_commands_and_no_workers_is_a_problem(patient: Patient) -> None:
    await patient.bus.append(subjects.command("gpu", "x", "r"), b"{}")
    found = await members.look(patient)
    assert {finding.name for finding in found if finding.status == "problem"} == {
        "members.router", "members.scheduler", "members.pool.gpu",
    }  # fmt: skip
    assert named(found, "members.pool.default").status == "warning"


async def test_a_writer_whose_clock_is_wrong_is_seen(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [finding.status for finding in await clock.look(patient)] == ["ok"]
    await report(patient.bus, time.time() - 90)
    (found,) = await clock.look(patient)
    assert (found.status, "records of a worker is 90 s behind the broker" in found.found) == ("problem", True)
    monkeypatch.setattr(clock, "RECENT_S", -1.0)  # it was long ago
    assert [finding.status for finding in await clock.look(patient)] == ["ok"]


async def test_each_machine_whose_clock_is_wrong_is_named(patient: Patient) -> None:
    bus = patient.bus
    await bus.kv_put(topology.WORKERS, "default.w1", msgspec.json.encode(Beat("w1", "default", skew=-3600.0)))
    await bus.kv_put(topology.WORKERS, "default.w2", msgspec.json.encode(Beat("w2", "default")))
    await bus.kv_put(topology.POOLS, pools.LEADER, msgspec.json.encode(pools.Leader("p1", time.time(), 4.0)))
    member = Membership(bus, "router", "r1", 4, Off(), lambda: None)
    await member.start()
    try:
        (found,) = await clock.look(patient)
    finally:
        await member.stop()
    assert found.status == "problem"
    assert found.found == (
        "router r1 is 12 s ahead of the broker; worker w1 is 60 min behind the broker; pools p1 is 4.0 s ahead of the "
        "broker"
    )


class Off(SystemClock):
    skew = 12.0


@pytest.fixture
async def synced(tmp_path: Path) -> AsyncIterator[Patient]:
    """A server that syncs at every write and tells so, in the folder of an embedded stack."""
    port = free_port()
    server = NatsServer(tmp_path / "nats", sync_always=True, monitor_port=port).start()
    bus = await connect(server.url_for("admin"))
    await ensure(bus, topology.wanted())
    try:
        yield Patient(bus, Settings(nats_url=server.url), folder=tmp_path, monitor=f"http://127.0.0.1:{port}")
    finally:
        await bus.close()
        server.stop()


async def test_the_promise_and_the_limits_are_read_where_they_can_be_seen(synced: Patient) -> None:
    for monitor in (synced.monitor, ""):
        synced.monitor = monitor
        (found,) = await durability.look(synced)
        assert (found.status, "synced at every write" in found.found) == ("ok", True)
        assert named(await disk.look(synced), "disk.limits").status == ("ok" if monitor else "skipped")
        assert str(synced.folder) in named(await disk.look(synced), "disk.space").found
    synced.folder = None
    (found,) = await durability.look(synced)
    assert (found.status, "cannot be seen" in found.found) == ("warning", True)
    assert named(await disk.look(synced), "disk.space").status == "skipped"


async def test_an_area_that_cannot_be_looked_at_does_not_hide_the_others(patient: Patient) -> None:
    await patient.bus.requests.api(f"STREAM.DELETE.{events_stream(0)}")
    await patient.bus.requests.api(f"STREAM.DELETE.{DEAD}")
    settings = msgspec.structs.replace(patient.settings, postgres_dsn="postgresql://127.0.0.1:1/none")
    found = {finding.name: finding for finding in await examination.examine(Found(settings), "http://127.0.0.1:1")}
    for name in ("streams.missing", "lag", "log", "postgres.reachable", "members.router"):
        assert found[name].status == "problem", name
    assert found["broker.version"].status == "ok"


@contextmanager
def unwell(error: str) -> Iterator[str]:
    """The monitoring address of a server that cannot write."""
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(503)
            self.end_headers()
            self.wfile.write(msgspec.json.encode({"status": "unavailable", "error": error}))

        def log_message(self, *_given: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_a_store_that_accepts_no_writes_is_said_first_and_nobody_is_blamed_for_silence(patient: Patient) -> None:
    document = compile_pool(plain("default", 1)).document
    assert document is not None
    await pools.apply(patient.bus, document, plain("default", 1), "ada", time.time())
    with unwell("stream 'NOETL > KV_noetl_pools' write error: no space left on device") as monitor:
        findings = await examination.examine(Found(patient.settings), monitor)
        refusal = await BrokerFiles(monitor=monitor).refusal(patient.bus)
    assert "no space left" in refusal
    first = ["broker.reachable", "disk.space", "disk.limits", "disk.writes"]
    assert [finding.name for finding in findings[:4]] == first
    assert named(findings, "disk.writes").status == "problem"
    pool = named(findings, "members.pool.default")
    assert (pool.status, "see to the disk first" in pool.fix) == ("warning", True)
    assert "services.pools" not in pool.fix
    assert "looks after it" not in pool.found
    assert named(findings, "members.router").fix == "start one: python -m services.router"  # heard without the store
    well = await examination.examine(Found(patient.settings), "")
    assert "services.pools" in named(well, "members.pool.default").fix
    assert await BrokerFiles().refusal(patient.bus) == ""


async def test_no_broker_is_one_problem_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jetstream, "CONNECT_S", 0.3)
    (found,) = await examination.examine(Found(Settings(nats_url="nats://u:secret@127.0.0.1:1")), "")
    assert (found.name, found.status) == ("broker.reachable", "problem")
    assert "secret" not in str(found)
