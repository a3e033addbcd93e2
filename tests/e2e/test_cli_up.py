"""noetlctl up and the commands that talk to it; any NATS client may start executions too."""

import json
import os
import signal
import stat
import time
import urllib.request
from pathlib import Path

import nats
import pytest

from shared.events.request import derive_id
from tests.support.cli import Cli, Up
from tests.support.examples import HELLO
from tests.support.playbooks import head
from tests.support.processes import children, running


@pytest.fixture
def registered(up: Up, cli: Cli) -> str:
    done = cli("register", HELLO, cwd=up.folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("registered examples/hello ")
    return "examples/hello"


def test_the_context_file_is_the_owners_alone(up: Up) -> None:
    assert stat.S_IMODE(up.context_file.stat().st_mode) == 0o600
    users = {"router", "scheduler", "projector", "pools", "admin", "client", "worker_default"}
    assert users == set(up.context["users"])


def test_every_service_is_a_process_that_says_it_is_ready(up: Up) -> None:
    assert set(up.context["health"]) == {"router", "scheduler", "pools", "projector"}
    for url in up.context["health"].values():
        with urllib.request.urlopen(url + "/readyz", timeout=5) as answer:
            assert answer.status == 200


def test_execute_wait_ends_as_run_does(up: Up, cli: Cli, registered: str) -> None:
    done = cli("execute", registered, "--set", 'names=["Linus"]', "--wait", "-o", "json", cwd=up.folder)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert (shown["status"], shown["result"]) == ("completed", {"count": 1, "lines": ["Hello, Linus!"]})


def test_get_shows_from_the_log_what_execute_showed(up: Up, cli: Cli, registered: str) -> None:
    shown = json.loads(cli("execute", registered, "--wait", "-o", "json", cwd=up.folder).stdout)
    done = cli("get", shown["execution_id"], "-o", "json", cwd=up.folder)
    assert (done.returncode, json.loads(done.stdout)) == (0, {**shown, "aside": []})


def test_the_same_key_is_the_same_execution(up: Up, cli: Cli, registered: str) -> None:
    first, again = (
        json.loads(cli("execute", registered, "--id", "order-1", "-o", "json", cwd=up.folder).stdout) for _ in "12"
    )
    assert (first["status"], again["status"]) == ("started", "duplicate")
    assert first["execution_id"] == again["execution_id"]


def test_an_unregistered_path_is_refused_with_the_fix(up: Up, cli: Cli) -> None:
    done = cli("execute", "no/such", cwd=up.folder)
    assert done.returncode == 7
    assert "noetlctl register" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_invalid_playbook_is_not_registered(up: Up, cli: Cli) -> None:
    (up.folder / "bad.yaml").write_text("apiVersion: noetl.io/v2\nkind: Playbook\n")
    done = cli("register", "bad.yaml", cwd=up.folder)
    assert (done.returncode, done.stdout) == (3, "")


def test_validate_knows_the_pools_of_the_server(up: Up, cli: Cli) -> None:
    step = "  - {step: start, tool: {kind: noop}, spec: {pool: defualt}}\n"
    (up.folder / "pooled.yaml").write_text(head("pooled") + "workflow:\n" + step)
    assert cli("validate", "pooled.yaml", cwd=up.folder).returncode == 0
    done = cli("validate", "--server", "pooled.yaml", cwd=up.folder)
    assert done.returncode == 3
    assert "pooled.yaml:5:52: error DSL409: there is no pool 'defualt' on the server" in done.stderr
    assert "did you mean default?" in done.stderr


def test_events_are_full_envelopes_in_log_order(up: Up, cli: Cli, registered: str) -> None:
    execution = cli("execute", registered, cwd=up.folder).stdout.strip()
    done = cli("events", execution, "--follow", cwd=up.folder)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[0]["event_type"] == "playbook.execution.requested"
    assert events[-1]["event_type"] == "playbook.processed"
    assert {event["execution_id"] for event in events} == {execution}
    assert {"event_id", "ts", "n", "entity_type", "status", "trace_id", "payload"} <= events[0].keys()
    assert cli("events", execution, cwd=up.folder).stdout == done.stdout
    table = cli("events", execution, "-o", "table", cwd=up.folder).stdout.splitlines()
    assert len(table) == len(events)
    named = cli("events", execution, "--names", "formal", cwd=up.folder).stdout
    formal = [json.loads(line) for line in named.splitlines()]
    assert {"step.finished", "tool.processed", "next.evaluated"} & {event["event_type"] for event in formal}
    assert {"StepStarted", "ToolCompleted"} <= {event["name"] for event in formal}


def test_get_without_an_id_lists_what_the_projector_wrote(up: Up, cli: Cli, registered: str) -> None:
    shown = json.loads(cli("execute", registered, "--wait", "-o", "json", cwd=up.folder).stdout)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        rows = json.loads(cli("get", "-o", "json", cwd=up.folder).stdout)
        found = {row["execution_id"]: row["status"] for row in rows}
        if found.get(shown["execution_id"]) == "completed":
            break
    assert found[shown["execution_id"]] == "completed"
    assert shown["execution_id"] in cli("get", cwd=up.folder).stdout


@pytest.mark.parametrize("command", ["get", "events"])
def test_an_unknown_execution_is_one_clear_line(up: Up, cli: Cli, command: str) -> None:
    done = cli(command, "nosuch", cwd=up.folder)
    assert (done.returncode, done.stdout) == (7, "")
    assert done.stderr.startswith("noetlctl: no execution nosuch in the log")


async def test_a_plain_nats_publish_starts_one_execution_per_message_id(up: Up, cli: Cli, registered: str) -> None:
    context = up.context
    client = await nats.connect(context["nats_url"], user="admin", password=context["users"]["admin"])
    try:
        inbox = await client.subscribe("_INBOX.somebody")
        headers = {"Nats-Msg-Id": "plain-1", "Noetl-Reply-To": "_INBOX.somebody"}
        request = json.dumps({"path": registered, "payload": {"names": ["Ada"]}}).encode()
        for _ in range(2):
            await client.publish("noetl.requests.execute", request, headers=headers)
        answer = json.loads((await inbox.next_msg(20)).data)
    finally:
        await client.close()
    assert (answer["execution_id"], answer["status"]) == (derive_id("id", "plain-1"), "started")
    events = cli("events", answer["execution_id"], "--follow", cwd=up.folder).stdout.splitlines()
    requested = [line for line in events if '"playbook.execution.requested"' in line]
    assert len(requested) == 1


def test_credentials_can_be_stored(up: Up, cli: Cli) -> None:
    done = cli("credential", 'pg={"password": "s3cret"}', cwd=up.folder)
    assert (done.returncode, done.stdout) == (0, "stored credential pg\n")
    assert cli("credential", "a b={}", cwd=up.folder).returncode == 2


def test_a_folder_in_use_is_refused(up: Up, cli: Cli) -> None:
    done = cli("up", "--folder", str(up.folder / ".noetl"), "--port", "0")
    assert done.returncode == 1
    assert f"in use by process {up.process.pid}" in done.stderr


def test_a_port_in_use_is_refused_with_the_fix(up: Up, cli: Cli) -> None:
    port = up.context["nats_url"].rpartition(":")[2]
    done = cli("up", "--folder", "other", "--port", port)
    assert (done.returncode, "--port" in done.stderr) == (1, True)


def test_without_a_stack_the_error_says_how_to_get_one(cli: Cli) -> None:
    done = cli("get", "x")
    assert done.returncode == 1
    assert "noetlctl up" in done.stderr


def test_a_killed_service_is_started_again_and_goes_on(up: Up, cli: Cli, registered: str) -> None:
    victims = [pid for pid, line in children(up.process.pid).items() if "services." in line]
    assert len(victims) == 4
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    done = cli("execute", registered, "--wait", "-o", "json", "--timeout", "60", cwd=up.folder)
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "completed"), done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_everything_and_the_data_stays(tmp_path: Path, number: int) -> None:
    stack = Up(tmp_path)
    try:
        stack.wait()
        pids = [*children(stack.process.pid), *stack.servers()]
        assert len(pids) >= 6
        os.killpg(stack.process.pid, number)
        assert stack.stop() == 0, stack.log.read_text()
    finally:
        stack.stop()
    assert not stack.context_file.exists()
    assert [pid for pid in pids if running(pid)] == []
    assert (tmp_path / ".noetl" / "nats" / "data").is_dir()


def test_a_killed_stack_leaves_nothing_that_the_next_one_cannot_handle(tmp_path: Path, cli: Cli) -> None:
    first = Up(tmp_path)
    second = None
    try:
        first.wait()
        assert cli("register", HELLO, cwd=tmp_path).returncode == 0
        services = children(first.process.pid)
        before = [*services, *(worker for service in services for worker in children(service))]
        assert sum("services.worker" in line for pid in services for line in children(pid).values()) == 1
        os.killpg(first.process.pid, signal.SIGKILL)
        first.stop()
        first.context_file.unlink()
        second = Up(tmp_path)
        second.wait()
        assert [pid for pid in before if running(pid)] == []
        done = cli("execute", "examples/hello", "--wait", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    finally:
        first.stop()
        if second is not None:
            second.stop()
