"""noetlctl events by the names of the formal specifications, on a stack of processes."""

import json
from typing import Any

import pytest

from shared.events import aliases
from tests.support.cli import Cli, Up
from tests.support.playbooks import head
from tests.support.waiting import wait_until

EVERYTHING = """
  - step: start
    tool: {kind: python, args: {n: "{{ _attempt }}"}, code: "result = {'n': 1 // (n - 1)}"}
    retry: {max_attempts: 2}
    case:
      - when: "{{ event.name == 'call.done' and response.n == 1 }}"
        then:
          sink: {tool: {kind: python, code: "result = 1"}}
          next: [{step: each}]
    sink: {tool: {kind: python, code: "result = 2"}, when: "{{ result.n == 2 }}"}
  - step: each
    loop: {in: [1, 2], iterator: n}
    tool: {kind: python, args: {n: "{{ n }}"}, code: "result = n"}
    next: ask
  - step: ask
    tool: {kind: signal, signal: go}
    next: broken
  - {step: broken, tool: {kind: python, code: "raise ValueError('no')"}}
"""


def _events(up: Up, inner: Cli, *args: str) -> list[dict[str, Any]]:
    done = inner("events", *args, cwd=up.folder)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def execution(up: Up, inner: Cli) -> str:
    """Paused and resumed on its way, and failed in the end."""
    (up.folder / "everything.yaml").write_text(f"{head('everything', 'formal/everything')}workflow:{EVERYTHING}")
    assert inner("register", "everything.yaml", cwd=up.folder).returncode == 0
    execution = inner("execute", "formal/everything", cwd=up.folder).stdout.strip()
    wait_until(lambda: {each["event_type"] for each in _events(up, inner, execution)}, "it waits for its signal", 60.0,
               so=lambda types: "task.waiting" in types)
    for command in (["pause", execution], ["resume", execution], ["signal", execution, "go"]):
        assert inner(*command, cwd=up.folder).returncode == 0
    return execution


def test_a_user_reads_every_formal_name(up: Up, inner: Cli, execution: str) -> None:
    followed = _events(up, inner, execution, "--names", "formal", "--follow")
    events = _events(up, inner, execution, "--names", "formal")
    assert events == followed
    tables = [*aliases.FORMAL.values(), *(each.name for each in aliases.SAID.values())]
    assert {each.fs for each in tables} - {""} - {each["event_type"] for each in events} == set()
    assert {name for each in tables for name in each[1:]} - {""} - {each["name"] for each in events} == set()
    assert {each["status"] for each in events} == {"in_progress", "success", "error", "paused", "skipped"}
    for each in events:
        assert (each["timestamp"], each["entity"], each["data"]) == (each["ts"], each["entity_type"], each["payload"])
    assert [each["data"]["index"] for each in events if each["event_type"] == "loop.iteration.started"] == [0, 1]
    assert {each["source"] for each in events if each["event_type"] == "step.started"} == {"server"}

    ours = _events(up, inner, execution)
    assert {each["event_type"] for each in ours} & {"sink.started", "tool.started", "token.claimed"} == set()
    late = events[-1]["ts"]
    assert _events(up, inner, execution, "--names", "formal", "--since", late) == [
        each for each in events if each["ts"] >= late]
    table = inner("events", execution, "--names", "formal", "-o", "table", cwd=up.folder).stdout.splitlines()
    assert [line.split()[3] for line in table] == [each["event_type"] for each in events]
