"""Playbooks that call playbooks, and tasks that wait: on a real stack, with more waits than slots."""

import time
from textwrap import dedent, indent

import pytest

from tests.conformance.stand.lab import Lab, opened, playbook
from tests.support.playbooks import head

pytestmark = pytest.mark.asyncio(loop_scope="module")


def book(path: str, workflow: str, workload: str = "{}") -> str:
    return f"{head(path.replace('/', '-'), path)}workload: {workload}\nworkflow:\n{indent(dedent(workflow), '  ')}"


DOUBLE = book(
    "sub/double",
    """
    - step: start
      tool: {kind: python, args: {n: "{{ workload.n }}"}, code: "result = {'twice': n * 2}"}
      next: {arcs: [{step: last}]}
    - step: last
      tool: {kind: noop, args: {n: "{{ workload.n }}", twice: "{{ start.twice }}"}}
    """,
    "{n: 1}",
)


async def test_a_child_gives_its_result_to_the_task_that_called_it(lab: Lab) -> None:
    await lab.register(DOUBLE)
    workflow = """
    - step: start
      tool:
        - {name: before, kind: noop, args: {n: 20}}
        - {name: call, kind: playbook, path: sub/double, args: {n: "{{ before.n + 1 }}"}}
        - {name: after, kind: noop, args: {got: "{{ call.twice }}", whole: "{{ call }}"}}
    """
    ran = await lab.run(playbook(workflow))
    assert ran.status == "completed", ran.error
    assert ran.result() == {"got": 42, "whole": {"n": 21, "twice": 42}}
    assert len(ran.of("task.waiting")) == len(ran.of("task.resumed")) == len(ran.of("child.ended")) == 1


async def test_return_step_chooses_the_result_of_a_child(lab: Lab) -> None:
    await lab.register(DOUBLE)
    workflow = """
    - step: start
      tool: {kind: playbook, path: sub/double, payload: {n: 4}, return_step: start}
    """
    assert (await lab.run(playbook(workflow))).result() == {"twice": 8}


async def test_a_failed_child_fails_its_task_with_its_error(lab: Lab) -> None:
    await lab.register(book("sub/broken", "- step: start\n  tool: {kind: python, code: 'raise ValueError(7)'}\n"))
    workflow = """
    - step: start
      tool:
        kind: playbook
        path: sub/broken
        spec:
          policy:
            rules:
              - when: "{{ outcome.error.kind == 'playbook' }}"
                then: {do: continue, set_ctx: {inner: "{{ outcome.error.error.kind }}"}}
    """
    ran = await lab.run(playbook(workflow))
    assert (ran.status, ran.summary.ctx) == ("completed", {"inner": "python"})


async def test_an_unknown_child_is_an_error_that_names_its_path(lab: Lab) -> None:
    ran = await lab.run(playbook("- step: start\n  tool: {kind: playbook, path: \"{{ 'sub/nowhere' }}\"}\n"))
    assert ran.status == "failed"
    assert "sub/nowhere" in ran.error["message"]
    assert "not" not in ran.error["kind"]


async def test_a_playbook_that_calls_itself_for_ever_ends_at_the_depth_limit(lab: Lab) -> None:
    ran = await lab.run(book("sub/endless", "- step: start\n  tool: {kind: playbook, path: sub/endless}\n"))
    assert ran.status == "failed"
    assert "over 32 playbooks call each other" in ran.error["message"]


async def test_a_detached_child_is_not_waited_for(lab: Lab) -> None:
    slow = "- step: start\n  tool: {kind: wait, for: 30s}\n"
    await lab.register(book("sub/slow", slow))
    began = time.monotonic()
    ran = await lab.run(playbook("- step: start\n  tool: {kind: playbook, path: sub/slow, mode: detached}\n"))
    assert ran.status == "completed"
    assert time.monotonic() - began < 15
    assert ran.result()["status"] == "started"
    assert len(ran.result()["execution_id"]) == 20


async def test_children_of_iterations_see_the_callers_iteration(lab: Lab) -> None:
    inner = """
    - step: start
      loop: {in: "{{ [1, 2] }}", iterator: room}
      tool: {kind: noop, args: {seen: "{{ iter.parent.city }}{{ iter.parent.index }}-{{ iter.room }}"}}
    """
    await lab.register(book("sub/rooms", inner))
    workflow = """
    - step: start
      loop: {in: "{{ ['Oslo', 'Rome'] }}", iterator: city, spec: {mode: parallel}}
      tool: {kind: playbook, path: sub/rooms}
    """
    ran = await lab.run(playbook(workflow))
    assert ran.status == "completed", ran.error
    seen = [[room["seen"] for room in city] for city in ran.result()]
    assert seen == [["Oslo0-1", "Oslo0-2"], ["Rome1-1", "Rome1-2"]]


async def test_a_hundred_parents_do_not_block_their_children_in_a_pool_of_four_slots() -> None:
    """Each level waits for the one below: a hundred parents, a hundred in between, a hundred leaves."""
    middle = """
    - step: start
      tool: {kind: playbook, path: sub/double, args: {n: "{{ workload.n }}"}}
    """
    workflow = """
    - step: start
      loop: {in: "{{ range(100) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 100}}
      tool: {kind: playbook, path: sub/middle, args: {n: "{{ iter.n }}"}}
    """
    async with opened(slots=4) as lab:
        await lab.register(DOUBLE)
        await lab.register(book("sub/middle", middle))
        ran = await lab.run(playbook(workflow))
        assert ran.status == "completed", ran.error
        assert [item["twice"] for item in ran.result()] == [2 * n for n in range(100)]


async def test_a_child_that_is_late_is_a_timeout(lab: Lab) -> None:
    await lab.register(book("sub/slow", "- step: start\n  tool: {kind: wait, for: 30s}\n"))
    began = time.monotonic()
    ran = await lab.run(playbook("- step: start\n  tool: {kind: playbook, path: sub/slow, spec: {timeout: 1}}\n"))
    assert (ran.status, ran.error["kind"]) == ("failed", "timeout")
    assert 1 <= time.monotonic() - began < 10


async def test_a_wait_holds_no_slot_and_ends_in_time(lab: Lab) -> None:
    workflow = """
    - step: start
      loop: {in: "{{ range(60) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 60}}
      tool: [{kind: wait, for: 1s}, {kind: noop, args: {n: "{{ iter.n }}"}}]
    """
    began = time.monotonic()
    ran = await lab.run(playbook(workflow))
    assert ran.status == "completed", ran.error
    assert [item["n"] for item in ran.result()] == list(range(60))
    assert 1 <= time.monotonic() - began < 15


async def test_a_long_pause_between_attempts_is_spent_without_a_worker(lab: Lab) -> None:
    workflow = """
    - step: start
      tool:
        kind: python
        args: {n: "{{ _attempt }}"}
        code: |
          if n < 2:
              raise ValueError("not yet")
          result = n
        spec:
          policy:
            rules:
              - when: "{{ outcome.status == 'error' }}"
                then: {do: retry, attempts: 3, delay: 6}
    """
    ran = await lab.run(playbook(workflow))
    assert (ran.status, ran.result()) == ("completed", 2)
    (waiting,) = ran.of("task.waiting")
    assert waiting["pause"]
    assert len(ran.of("step.started")) == 2


async def test_a_run_that_waits_past_its_time_fails(lab: Lab) -> None:
    workflow = """
    - step: start
      spec: {policy: {lifecycle: {timeout_s: 2}}}
      tool: {kind: wait, for: 60s}
    """
    began = time.monotonic()
    ran = await lab.run(playbook(workflow))
    assert (ran.status, ran.error["kind"]) == ("failed", "timeout")
    assert time.monotonic() - began < 12


async def test_a_step_that_no_worker_takes_fails_at_its_deadline(lab: Lab) -> None:
    workflow = """
    - step: start
      loop: {in: "{{ range(200) | list }}", iterator: n}
      spec: {policy: {lifecycle: {deadline_s: 1}}}
      tool: {kind: wait, for: 1s}
    """
    ran = await lab.run(playbook(workflow))
    assert (ran.status, ran.error["kind"]) == ("failed", "timeout")
