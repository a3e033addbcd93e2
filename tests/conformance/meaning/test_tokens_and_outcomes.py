"""What admission sees of a token, what a playbook sees of those around it, and what every outcome has, on a real
stack (V10 §4, §5.2.1, §6.4; DSL2 §5.3)."""

import pytest

from tests.conformance.stand.api import Api
from tests.conformance.stand.lab import Lab, playbook
from tests.conformance.test_sub_playbooks import book

pytestmark = pytest.mark.asyncio(loop_scope="module")

GATE = """
- step: start
  tool: {kind: python, args: {bad: "{{ workload.bad }}"}, code: "result = {'n': 1 // (0 if bad else 1)}"}
  next: {arcs: [{step: gate, when: "{{ event.name in ['step.done', 'step.failed'] }}", args: {way: straight}}]}
- step: gate
  spec:
    policy:
      admit:
        mode: MODE
        rules:
          - when: "{{ event.name == 'step.failed' and event.error.kind == 'python' and args.way == 'straight' }}"
            then: {allow: false}
          - {when: "{{ event.name == 'call.done' and event.result.n == workload.wanted }}", then: {allow: true}}
          - {when: "{{ true }}", then: {allow: false}}
          - else: {then: {allow: true}}
  tool: {kind: noop}
"""


@pytest.mark.parametrize("mode", ["exclusive", "inclusive"])
@pytest.mark.parametrize(("payload", "rule"), [
    ({"bad": False, "wanted": 1}, None), ({"bad": True, "wanted": 1}, 0), ({"bad": False, "wanted": 2}, 2)])
async def test_admission_sees_the_event_that_made_the_token(
    lab: Lab, mode: str, payload: dict[str, object], rule: int | None
) -> None:
    """And is one gate in either mode: the first rule that matches decides."""
    ran = await lab.run(playbook(GATE.replace("MODE", mode)), payload)
    assert ran.status == "completed", ran.error
    assert [rejected["rule"] for rejected in ran.of("token.rejected")] == ([] if rule is None else [rule])
    assert list(ran.summary.steps) == (["start", "gate"] if rule is None else ["start"])


async def test_a_token_that_waits_for_others_keeps_its_event(lab: Lab) -> None:
    """Of tokens that come together it is that of the last; the first token of an execution has none."""
    workflow = """
    - step: start
      spec: {policy: {admit: {rules: [{when: "{{ event.name is defined }}", then: {allow: false}},
                                      {else: {then: {allow: true}}}]}}}
      next: {spec: {mode: inclusive}, arcs: [{step: quick}, {step: slow}]}
    - {step: quick, tool: {kind: noop, args: {n: 1}}, next: {arcs: [{step: meet}]}}
    - {step: slow, tool: {kind: python, code: "import time; time.sleep(0.5); result = {'n': 2}"},
       next: {arcs: [{step: meet}]}}
    - step: meet
      spec: {policy: {admit: {rules: [{when: "{{ event.name == 'step.done' and event.result.n == 2 }}",
                                       then: {allow: true}}]}}}
      tool: {kind: noop, args: {met: true}}
    """
    ran = await lab.run(playbook(workflow))
    assert (ran.status, ran.result()) == ("completed", {"met": True})


LEAF = """
- step: start
  loop: {in: [x, y], iterator: leaf}
  tool:
    kind: noop
    args: {seen: "{{ iter.leaf }} {{ iter.parent.PARENT }}{{ iter.parent.parent.GRAND | default('') }}"}
"""


async def test_iterations_of_three_playbooks_are_each_others_parents(lab: Lab) -> None:
    """V10 §6.4. The one in the middle names no `iter` itself."""
    await lab.register(book("around/leaf", LEAF.replace("PARENT", "room").replace("GRAND", "city")))
    middle = "- {step: start, loop: {in: [1, 2], iterator: room}, tool: {kind: playbook, path: around/leaf}}"
    await lab.register(book("around/middle", middle))
    outer = "- {step: start, loop: {in: [Oslo, Rome], iterator: city}, tool: {kind: playbook, path: around/middle}}"
    ran = await lab.run(playbook(outer))
    assert ran.status == "completed", ran.error
    seen = [leaf["seen"] for city in ran.result() for room in city for leaf in room]
    assert seen == [f"{leaf} {room}{city}" for city in ("Oslo", "Rome") for room in (1, 2) for leaf in ("x", "y")]


async def test_a_playbook_without_a_loop_passes_on_the_iteration_around_it(lab: Lab) -> None:
    await lab.register(book("through/leaf", LEAF.replace("PARENT", "city").replace("GRAND", "city")))
    await lab.register(book("through/plain", "- {step: start, tool: {kind: playbook, path: through/leaf}}"))
    outer = "- {step: start, loop: {in: [Oslo, Rome], iterator: city}, tool: {kind: playbook, path: through/plain}}"
    ran = await lab.run(playbook(outer))
    assert ran.status == "completed", ran.error
    assert [leaf["seen"] for city in ran.result() for leaf in city] == ["x Oslo", "y Oslo", "x Rome", "y Rome"]


async def test_the_names_of_headers_are_found_in_any_spelling(lab: Lab, api: Api) -> None:
    api.pages, api.sends = {"/a": [[1]]}, {"X-Left": "3"}
    workflow = """
    - step: start
      tool:
        kind: http
        url: "{{ workload.url }}/a"
        spec:
          policy:
            rules:
              - when: "{{ outcome.http.headers['X-Left'] == '3' and 'X-LEFT' in outcome.http.headers }}"
                then: {do: continue, set_ctx: {left: "{{ outcome.http.headers.get('x-left') }}",
                                               all: "{{ outcome.http.headers }}"}}
              - else: {then: {do: fail}}
      next: {arcs: [{step: two, when: "{{ event.result.headers['X-Left'] | int == 3 }}"}]}
    - step: two
      tool:
        kind: noop
        args: {left: "{{ ctx.left }}", kind: "{{ start.headers['Content-Type'] }}", own: "{{ ctx.all['x-left'] }}",
               other: "{{ start.headers['No'] is defined }}"}
    """
    ran = await lab.run(playbook(workflow), {"url": api.url})
    assert ran.status == "completed", ran.error
    assert ran.result() == {"left": "3", "kind": "application/json; charset=utf-8", "own": "3", "other": False}


@pytest.mark.parametrize(("auth", "kind"), [("nobody", "auth"), ("unreachable", "connect")])
async def test_the_codes_of_postgres_are_there_whatever_failed(lab: Lab, auth: str, kind: str) -> None:
    await lab.credential("unreachable", {"dsn": "postgresql://u:p@127.0.0.1:1/x"})
    workflow = """
    - step: start
      tool:
        kind: postgres
        auth: "{{ workload.auth }}"
        query: SELECT 1
        spec:
          policy:
            rules:
              - {when: "{{ outcome.pg.code == '40001' }}", then: {do: retry, attempts: 2}}
              - when: "{{ outcome.status == 'error' and outcome.pg.code is none }}"
                then: {do: continue, set_ctx: {code: "{{ outcome.pg.code }}", kind: "{{ outcome.error.kind }}"}}
    """
    ran = await lab.run(playbook(workflow), {"auth": auth})
    assert (ran.status, ran.summary.ctx) == ("completed", {"code": None, "kind": kind}), ran.error
