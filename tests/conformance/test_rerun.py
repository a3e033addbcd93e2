"""Reruns: a new execution takes over what an earlier one has, and does the rest."""

import uuid
from typing import Any

import msgspec
import pytest

from shared.dsl.model.edition import plan_name
from shared.events import subjects
from shared.events.headers import MESSAGE_ID, REPLY_TO
from shared.events.request import Control, derive_id
from tests.conformance.stand.lab import Lab, Ran, playbook, rows
from tests.conformance.test_control import Running
from tests.support.servers.postgres import execute

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def rerun(lab: Lab, ran: Ran, step: str = "", version: str = "") -> Running:
    key = uuid.uuid4().hex
    asked = Control(ran.summary.execution_id, by="test", name=step, version=version)
    await lab.bus.append(subjects.RERUN, msgspec.json.encode(asked), headers={MESSAGE_ID: key})
    return Running(lab, derive_id("id", key))


FLOW = """
- step: start
  tool: {kind: postgres, auth: pg_k8s, command: "INSERT INTO calls VALUES ('start') RETURNING 5 AS n"}
  next: {spec: {mode: inclusive}, arcs: [{step: left, args: {a: "{{ start[0].n }}"}}, {step: right}]}
- step: left
  tool:
    - {name: nap, kind: wait, for: 500ms}  # `right` is done when this one fails
    - {name: note, kind: postgres, auth: pg_k8s, command: "INSERT INTO calls VALUES ('left')"}
    - name: check
      kind: postgres
      auth: pg_k8s
      command: "SELECT 1 / (SELECT n FROM gate) AS fine"
      spec:
        policy:
          rules:
            - {when: "{{ outcome.error }}", then: {do: fail}}
            - else: {then: {do: continue, set_ctx: {a: "{{ args.a }}"}}}
  next: {arcs: [{step: last}]}
- step: right
  tool: {kind: postgres, auth: pg_k8s, command: "INSERT INTO calls VALUES ('right')"}
  next: {arcs: [{step: last}]}
- step: last
  tool: {kind: noop, args: {n: "{{ start[0].n }}", a: "{{ ctx.a }}"}}
"""


async def _failed(lab: Lab) -> tuple[Ran, str]:
    dsn = await lab.database()
    for statement in ("CREATE TABLE calls (step text)", "CREATE TABLE gate AS SELECT 0 AS n"):
        await execute(dsn, statement)
    ran = await lab.run(playbook(FLOW))
    assert ran.status == "failed"
    await execute(dsn, "UPDATE gate SET n = 1")
    return ran, dsn


async def _calls(dsn: str) -> dict[str, int]:
    found: list[tuple[Any, ...]] = await rows(dsn, "SELECT step, count(*) FROM calls GROUP BY step")
    return dict(found)


async def test_only_what_failed_runs_again(lab: Lab) -> None:
    ran, dsn = await _failed(lab)
    before = await _calls(dsn)
    summary = await (await rerun(lab, ran)).over()
    assert (summary.status, summary.as_dict()["result"]) == ("completed", {"n": 5, "a": 5})
    after = await _calls(dsn)
    assert after["start"] == 1
    assert after["left"] == before["left"] + 1
    assert after["right"] == 1


async def test_a_rerun_from_a_step_has_everything_as_it_was_then(lab: Lab) -> None:
    ran, dsn = await _failed(lab)
    summary = await (await rerun(lab, ran, "left")).over()
    assert (summary.status, summary.as_dict()["result"]) == ("completed", {"n": 5, "a": 5})
    assert (await _calls(dsn))["start"] == 1


async def test_a_large_result_is_taken_over_by_reference(lab: Lab) -> None:
    workflow = """
    - step: start
      tool: {kind: python, code: "result = ['x' * 1000] * 400"}
      next: {arcs: [{step: check}]}
    - step: check
      next: {arcs: [{step: last, when: "{{ start | length == 400 }}"}]}
    - step: last
      tool: {kind: noop, args: {n: "{{ start | length }}"}}
    """
    ran = await lab.run(playbook(workflow))
    run = await rerun(lab, ran, "check")
    assert (await run.over()).as_dict()["result"] == {"n": 400}
    assert "task.started" in await run.types()


BROKEN = """
- step: start
  tool: {kind: python, code: "result = {'n': 5}"}
  next: {arcs: [{step: middle}]}
- step: middle
  tool: {kind: noop, args: {m: "{{ start.nn + 1 }}"}}
  next: {arcs: [{step: last}]}
- step: last
  tool: {kind: noop, args: {all: "{{ middle.m }} {{ workload.unit }}"}}
"""
MENDED = BROKEN.replace("start.nn", "start.n")


async def test_a_mended_version_continues_with_what_is_done(lab: Lab) -> None:
    """The stand proves every log in the end: this one with the plan of the mended version."""
    ran = await lab.run(playbook(BROKEN, workload="{unit: kg}"))
    assert (ran.status, ran.error["kind"]) == ("failed", "template")
    entry = await lab.register(playbook(MENDED, workload="{unit: g}"))
    run = await rerun(lab, ran, version="latest")
    summary = await run.over()
    assert (summary.status, summary.as_dict()["result"]) == ("completed", {"all": "6 g"})
    assert summary.digest == plan_name(entry.digest)
    assert (await run.types()).count("step.scheduled") == 2
    again = await rerun(lab, await lab.finish(run.id), "last", entry.version)
    assert (await again.over()).as_dict()["result"] == {"all": "6 g"}


async def test_a_value_that_the_first_request_gave_stays_through_reruns(lab: Lab) -> None:
    ran = await lab.run(playbook(BROKEN, workload="{unit: kg}"), {"unit": "lb"})
    await lab.register(playbook(BROKEN + "# still broken", workload="{unit: g}"))
    failed = await lab.finish((await rerun(lab, ran, version="latest")).id)
    assert failed.status == "failed"
    await lab.register(playbook(MENDED, workload="{unit: mg}"))
    summary = await (await rerun(lab, failed, version="latest")).over()
    assert summary.as_dict()["result"] == {"all": "6 lb"}


async def test_a_version_in_which_what_is_done_is_another_is_refused_by_its_step(lab: Lab) -> None:
    ran = await lab.run(playbook(BROKEN, workload="{unit: kg}"))
    entry = await lab.register(playbook(MENDED.replace("'n': 5", "'n': 6"), workload="{unit: kg}"))
    for version, says in (
        ("latest", f"version {entry.version} of {entry.path} has another step 'start', which is done: its tasks"),
        ("nope", "no playbook 'tests/conformance' version 'nope' is registered"),
    ):
        answer = await refused(lab, Control(ran.summary.execution_id, version=version))
        assert answer.startswith(f"execution {ran.summary.execution_id} cannot continue: {says}")


async def refused(lab: Lab, asked: Control) -> str:
    inbox = await lab.bus.subscribe("_INBOX_admin.rerun")
    headers = {REPLY_TO: "_INBOX_admin.rerun"}
    await lab.bus.append(subjects.RERUN, msgspec.json.encode(asked), headers=headers)
    answer = msgspec.json.decode(await inbox.next())
    await inbox.close()
    assert answer["status"] == "failed"
    return str(answer["error"]["message"])


@pytest.mark.parametrize(
    ("step", "says"), [("", "is completed: nothing of it failed"), ("nowhere", "never came to a step 'nowhere'")]
)
async def test_a_rerun_that_cannot_be_is_refused_with_the_reason(lab: Lab, step: str, says: str) -> None:
    ran = await lab.run(playbook("- step: start\n  tool: {kind: noop}\n"))
    assert says in await refused(lab, Control(ran.summary.execution_id, name=step))
