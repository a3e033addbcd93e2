"""noetlctl replay and debug on a real server, over histories that were rehearsed and written to its log."""

import asyncio
import json
import resource
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from services.cli.console import exits
from services.cli.console.times import FORMS
from shared.answers.rehearsal.rehearse import rehearse
from shared.answers.rehearsal.setting import Opening
from shared.answers.rehearsal.types import Answered, Need
from shared.bus.jetstream import JetStreamBus
from shared.dsl.compile import compile_playbook
from shared.dsl.model.plan import Plan
from shared.events.outcome import ok
from shared.events.record import encode, subject_of
from shared.runtime.embedded.nats_server import NatsServer
from shared.runtime.service.settings import Settings
from shared.runtime.stores import catalog, results
from shared.tools import registry
from shared.tools.testing.effectless import natural
from tests.support.cli import Cli, Result, cli

__all__ = ["cli"]
PARTITIONS = Settings().partitions
EXECUTIONS = 200
LIMIT_S = 20.0  # of the processor: a busy machine is not what is tested
STEPS = "".join(f"""
  - step: s{k}
    tool: {{kind: http, url: "https://x.test/{{{{ workload.id }}}}/{k}"}}
    next: {{arcs: [{{step: s{k + 1}, args: {{n: "{{{{ s{k}.n }}}}"}}}}]}}
""" for k in range(1, 9))
SOURCE = f"""apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: orders, path: shop/orders}}
workload: {{id: 0}}
workflow:
  - step: start
    tool: {{kind: python, code: "return 1", args: {{id: "{{{{ workload.id }}}}"}}}}
    next:
      arcs:
        - {{step: s1, when: "{{{{ start.total > 10 }}}}"}}
        - {{step: low}}
  - step: low
    tool: {{kind: http, url: "https://x.test/low"}}
{STEPS}
  - step: s9
    tool: {{kind: noop, args: {{n: "{{{{ args.n }}}}"}}}}
"""


def answer(need: Need) -> Answered:
    """An order's total is a tenth of its id. The result of one call is too large for a record."""
    if need.kind == "noop":
        return natural(need)
    if need.kind == "python":
        return ok({"total": need.config["args"]["id"] / 10})
    rows = ["x" * 100] * (2000 if need.step == "s2" and need.config["url"].endswith("/107/2") else 1)
    return ok({"status_code": 200, "headers": {}, "data": {"n": need.config["url"], "rows": rows}}, shape="http")


def compiled(source: str) -> Plan:
    plan = compile_playbook(source, kinds=registry.specs()).plan
    assert plan is not None
    return plan


async def write(bus: JetStreamBus, plan: Plan, number: int) -> str:
    """One recorded execution, with the sequences that the broker gives."""
    opening = Opening(execution_id=f"e{number}", payload={"id": number}, at=1_800_000_000.0 + number)
    found = rehearse(plan, answer, registry.specs(), opening)
    assert found.status == "completed"
    given = {0: 0}
    for seq, record in found.entries:
        subject = subject_of(record, PARTITIONS)
        given[seq] = await bus.append(subject, encode(replace(record, as_of=given[record.as_of])))
    for checksum, value in found.values.items():
        await results.store(bus, found.execution_id, {checksum: msgspec.json.encode(value)})
    return found.execution_id


@pytest.fixture
async def plan(admin: JetStreamBus) -> Plan:
    plan = compiled(SOURCE)
    await catalog.register(admin, SOURCE.encode(), plan)
    return plan


@pytest.fixture
def noetlctl(cli: Cli, nats_server: NatsServer, tmp_path: Path) -> Callable[..., Result]:
    (tmp_path / "edited.yaml").write_text(SOURCE.replace("start.total > 10", "start.total > 20"))
    (tmp_path / "broken.yaml").write_text("kind: Playbook\n")

    def call(*args: str, stdin: str = "") -> Result:
        return cli(*args, stdin=stdin, NOETL_NATS_URL=nats_server.url_for("admin"))

    return call


def spent() -> float:
    """By processes that have ended."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


async def test_two_hundred_executions_are_replayed_within_twenty_seconds(
    admin: JetStreamBus, plan: Plan, noetlctl: Callable[..., Result]
) -> None:
    for first in range(101, 101 + EXECUTIONS, 25):
        await asyncio.gather(*(write(admin, plan, number) for number in range(first, first + 25)))
    began = spent()
    done = noetlctl("replay", "--playbook", "shop/orders", "--last", "200", "--against", "edited.yaml", "-o", "json")
    took = spent() - began
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    replays = found.pop("replays")
    assert found == {"against": "edited.yaml", "total": 200, "identical": 100, "diverges": 100, "needs_calls": 0}
    assert [each["execution_id"] for each in replays] == [f"e{number}" for number in range(300, 100, -1)]
    differs = replays[-1]
    assert differs == {
        "execution_id": "e101", "path": "shop/orders", "verdict": "diverges", "recorded": "completed",
        "replayed": "running", "notes": [],
        "divergence": {
            "what": "arcs", "step": "start", "run_id": "start:1", "index": -1, "task": "", "line": 6,
            "seq": differs["divergence"]["seq"],
            "log": {"event": "step.done", "arcs": ["s1"]}, "new": {"event": "step.done", "arcs": ["low"]},
            "because": [
                {"arc": "s1", "when": "{{ start.total > 20 }}", "holds": False, "values": {"start": {"total": 10.1}}},
                {"arc": "low", "when": None, "holds": None, "values": {}},
            ],
            "message": "step start: the log has step.done to s1; now it is step.done to low",
        },
        "needs": [{"step": "low", "run_id": "low:1", "index": -1, "task": "low_task", "kind": "http", "attempt": 1,
                   "element": -1, "config": {"url": "https://x.test/low"}, "auth": None}],
    }
    assert took < LIMIT_S, f"{took:.1f} s"


async def test_one_execution_is_replayed_against_its_own_and_another_source(
    admin: JetStreamBus, plan: Plan, noetlctl: Callable[..., Result]
) -> None:
    await write(admin, plan, 107)
    same = noetlctl("replay", "e107")
    assert (same.returncode, same.stdout) == (0, "identical: e107 of shop/orders, recorded as completed\n")
    other = noetlctl("replay", "e107", "--against", "edited.yaml")
    assert other.returncode == 1
    assert other.stdout.splitlines() == [
        "diverges: e107 of shop/orders, recorded as completed",
        "diverges at step start: the log has step.done to s1; now it is step.done to low",
        '  arc to s1: {{ start.total > 20 }} does not hold, with {"start": {"total": 10.7}}',
        "  arc to low: no condition",
        'needs low:1/low_task (http) attempt 1: {"url": "https://x.test/low"}',
    ]
    assert noetlctl("replay", "e107", "--against", "broken.yaml").returncode == exits.INVALID
    assert noetlctl("replay", "nobody").returncode == exits.NOT_FOUND
    assert noetlctl("replay", "--playbook", "shop/nothing").returncode == exits.NOT_FOUND


async def test_the_state_at_any_point_of_the_log(
    admin: JetStreamBus, plan: Plan, noetlctl: Callable[..., Result]
) -> None:
    await write(admin, plan, 107)
    shown = json.loads(noetlctl("debug", "e107", "--at", "#2", "-o", "json").stdout)
    assert set(shown) == {
        "execution_id", "path", "position", "records", "seq", "ts", "record", "status", "paused", "workload", "ctx",
        "results", "result", "error", "tokens", "runs", "loops", "waits", "places", "next"}
    assert (shown["position"], shown["record"]["writer"], shown["status"]) == (2, "worker", "running")
    assert [(run["run_id"], run["state"]) for run in shown["runs"]] == [("start:1", "ended")]
    assert [event["event_type"] for event in shown["next"]["router"]] == [
        "next.selected", "token.created", "step.scheduled"]
    value = noetlctl("debug", "e107", "--eval", "{{ start.total * 10 }}")
    assert (value.returncode, json.loads(value.stdout)) == (0, 107)
    large = noetlctl("debug", "e107", "--run", "s2:1", "--eval", "{{ s2_task.rows | length }}")
    assert large.stdout == "2000\n", "a stored result is brought"
    missing = noetlctl("debug", "e107", "--at", "#1", "--eval", "{{ start.total }}")
    assert (missing.returncode, missing.stderr) == (1, "noetlctl: 'start.total' is undefined, in `{{ start.total }}`\n")


async def test_commands_step_through_the_log(
    admin: JetStreamBus, plan: Plan, noetlctl: Callable[..., Result]
) -> None:
    await write(admin, plan, 107)
    lines = ["g #1", "n", "p", "e workload.id", "u s1:1", "e args", "u", "x", "p", "g yesterday", "r"]
    lines += ["g 2027-01-16", "q"]
    done = noetlctl("debug", "e107", "-i", "--at", "#3", stdin="\n".join(lines))
    shown = done.stdout.splitlines()
    assert done.returncode == 0
    assert shown[0].startswith("#3 of ")
    assert any(line.startswith("#2 of ") and line.endswith("step.done") for line in shown)
    assert "107" in shown
    assert "expressions see s1:1" in shown
    assert '  "writer": "router",' in shown
    assert shown[-1].endswith("workflow.finished, playbook.processed"), "what was last at that time"
    assert done.stderr.splitlines() == [
        "noetlctl: there is no run s1:1 with tasks at record #1", "noetlctl: there is no command 'x': h lists them",
        f"noetlctl: the log has records #1 … #{shown[0].split()[2]}",
        f"noetlctl: 'yesterday' is no point of a log: write a sequence, #N, or a time such as {FORMS}",
    ]
