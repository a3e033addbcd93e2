"""What programs are handed, on a real stack."""

import pytest

from tests.conformance.stand.lab import Lab, playbook

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOOP = """
- step: start
  spec: {policy: {failure: {mode: best_effort}}}
  loop: {in: [3, 0, 1], iterator: n}
  tool: {kind: python, args: {n: "{{ iter.n }}"}, code: "result = {'part': 6 // n}"}
  next: {arcs: [{step: told}]}
"""


@pytest.mark.parametrize("given", ["{{ start }}", "{{ start | default([]) }}"])
async def test_a_whole_loop_is_a_list_and_answers_as_a_mapping(lab: Lab, given: str) -> None:
    ran = await lab.run(playbook(LOOP + f"""
- step: told
  tool:
    kind: python
    args: {{loop: "{given}", deep: {{one: ["{given}"]}}}}
    code: |
      import json
      assert isinstance(loop, list) and isinstance(loop, dict) and 'results' in loop and 'other' not in loop
      assert loop == loop['results'] == loop.get('results') == deep['one'][0]['results'] == json.loads(json.dumps(loop))
      assert loop.get('nothing', 1) == 1 and len(loop) == 3
      assert loop[0] == {{'part': 2}} and loop[-1:] == [{{'part': 6}}]
      result = {{'stats': loop['stats'], 'parts': [each['part'] for each in loop if each], 'whole': loop}}
"""))
    assert ran.status == "completed", ran.error
    assert ran.result() == {"stats": {"total": 3, "done": 2, "success": 2, "failed": 1}, "parts": [2, 6],
                            "whole": [{"part": 2}, None, {"part": 6}]}


async def test_what_is_read_of_a_loop_is_what_it_is(lab: Lab) -> None:
    ran = await lab.run(playbook(LOOP + """
- step: told
  tool:
    kind: python
    args: {parts: "{{ start.results }}", first: "{{ start[0] }}", data: "{{ start.data }}"}
    code: "result = [type(parts).__name__, isinstance(parts, dict), first, data == parts]"
"""))
    assert ran.result() == ["list", False, {"part": 2}, True]


async def test_a_whole_loop_as_an_argument_of_the_step_is_the_same(lab: Lab) -> None:
    ran = await lab.run(playbook(LOOP + """
- step: told
  tool: {kind: python, code: "result = [loop.get('stats'), n]"}
  args: {loop: "{{ start }}", n: "{{ 1 }}"}
"""))
    assert ran.result() == [{"total": 3, "done": 2, "success": 2, "failed": 1}, 1]


PROGRAM = """
      import json
      rows = [{'n': 1}, {'n': 2}]
      assert isinstance(t, list) and isinstance(t, dict) and t == rows and t['rows'] == rows and rows == list(t)
      assert t[0] == {'n': 1} and t[-1:] == [{'n': 2}] and len(t) == 2 and {'n': 1} in t and 'rows' in t
      assert t.get('row_count') == 2 and dict(t)['columns'] == ['n'] and json.loads(json.dumps(t)) == dict(t)
      result = {'sum': sum(row['n'] for row in t), 'whole': t}
"""


@pytest.mark.parametrize("args", ["  args: {t: '{{ start }}'}\n  tool:\n", "  tool:\n    args: {t: '{{ start }}'}\n"],
                         ids=["of the step", "of the task"])
async def test_a_whole_table_is_a_mapping_and_answers_as_the_list_of_its_rows(lab: Lab, args: str) -> None:
    """FX §8.1: the result of a query is its rows."""
    await lab.database()
    ran = await lab.run(playbook(f"""
- step: start
  tool: {{kind: postgres, auth: pg_k8s, command: "SELECT * FROM (VALUES (1), (2)) AS t(n) ORDER BY n"}}
  next: {{arcs: [{{step: told}}]}}
- step: told
{args}    kind: python
    code: |{PROGRAM}"""))
    assert ran.status == "completed", ran.error
    assert ran.result() == {"sum": 3, "whole": {"rows": [{"n": 1}, {"n": 2}], "row_count": 2, "columns": ["n"]}}


async def test_a_table_without_rows_is_false_to_a_program(lab: Lab) -> None:
    await lab.database()
    ran = await lab.run(playbook("""
- step: start
  tool: {kind: postgres, auth: pg_k8s, command: "SELECT 1 AS n WHERE false"}
  next: {arcs: [{step: told}]}
- step: told
  tool:
    kind: python
    args: {t: "{{ start }}", rows: "{{ start.rows }}"}
    code: "result = [bool(t), t or 'none', rows]"
"""))
    assert ran.result() == [False, "none", []]


@pytest.mark.parametrize(("given", "told"), [
    ("{a: 1, b: [2]}", {"a": 1, "b": [2]}),
    ("{input_data: {a: 1}}", {"a": 1}),
])
async def test_a_program_that_reads_all_its_args_reads_those_of_the_arc(lab: Lab, given: str, told: object) -> None:
    ran = await lab.run(playbook(f"""
    - step: start
      tool: {{kind: noop}}
      next: [{{step: told, args: {given}}}]
    - step: told
      tool: {{kind: python, code: "def main(input_data): return input_data"}}
    """))
    assert ran.result() == told


async def test_of_several_arcs_each_brings_its_own_args(lab: Lab) -> None:
    ran = await lab.run(playbook("""
    - step: start
      tool: {kind: noop}
      next:
        spec: {mode: exclusive}
        arcs:
          - {step: told, when: "{{ workload.n > 1 }}", args: {a: 1, c: 0}}
          - {step: told, args: {b: 2, c: 3}}
    - step: told
      tool: {kind: python, args: {c: 4}, code: "result = input_data"}
    """, workload="{n: 1}"))
    assert ran.result() == {"a": None, "b": 2, "c": 4}


async def test_the_response_of_an_outcome_is_its_result(lab: Lab) -> None:
    ran = await lab.run(playbook("""
    - step: start
      tool:
        name: make
        kind: python
        code: "result = {'users': [{'id': 7}]}"
        spec:
          policy:
            rules: [{else: {then: {do: continue, set_ctx: {first: "{{ outcome.response.users[0].id }}"}}}}]
      next: {arcs: [{step: told}]}
    - step: told
      tool: {kind: noop, args: {first: "{{ ctx.first }}"}}
    """))
    assert ran.result() == {"first": 7}


async def test_a_program_that_stores_has_the_result_as_data(lab: Lab) -> None:
    ran = await lab.run(playbook("""
    - step: start
      tool: {kind: python, code: "result = {'n': 7}"}
      sink: {tool: {kind: python, code: "def main(data): return {'stored': data['n']}"}}
      next: [{step: end}]
    - step: end
    """))
    assert ran.status == "completed", ran.error
    stored = [done["outcome"]["result"] for done in ran.of("task.done") if done["task"] == "start_sink"]
    assert stored == [{"stored": 7}]


async def test_an_arg_without_a_value_is_a_place_for_one_of_the_arc(lab: Lab) -> None:
    ran = await lab.run(playbook("""
    - step: start
      tool: {kind: noop}
      next: [{step: told, args: {n: 1, m: 2}}]
    - step: told
      tool: {kind: python, args: {n: null, k: null, m: 3}, code: "def main(n, k, m): return [n, k, m]"}
    """))
    assert ran.result() == [1, None, 3]
