"""The results of several statements of one task, as playbooks read them, on a real stack."""

import pytest

from tests.conformance.stand.lab import Lab, playbook

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUERIES = 'tool: {kind: postgres, auth: pg_k8s, command: "SELECT 1 AS a; SELECT 2 AS b, 3 AS c"}'


@pytest.mark.parametrize("read", ["start", "start.data", "start.result", "start.data.result", "start.result.data"])
async def test_each_statement_has_its_result_wherever_one_looks(lab: Lab, read: str) -> None:
    await lab.database()
    ran = await lab.run(playbook(f"""
    - step: start
      {QUERIES}
      next: {{arcs: [{{step: told, when: "{{{{ {read}.command_0.rows[0].a == 1 }}}}"}}]}}
    - step: told
      tool:
        kind: noop
        args: {{first: "{{{{ {read}.command_0.rows[0].a }}}}", second: "{{{{ {read}.command_1.rows }}}}",
               last: "{{{{ {read}[0].b }}}}", rows: "{{{{ start.data }}}}"}}
    """))
    assert ran.result() == {"first": 1, "second": [{"b": 2, "c": 3}], "last": 2, "rows": [{"b": 2, "c": 3}]}


async def test_what_is_kept_of_them_is_all_of_them(lab: Lab) -> None:
    await lab.database()
    ran = await lab.run(playbook(f"""
    - step: start
      {QUERIES}
      vars: {{kept: "{{{{ result }}}}"}}
      next: [{{step: told}}]
    - step: told
      tool:
        kind: python
        args: {{kept: "{{{{ vars.kept }}}}"}}
        code: "result = [kept.get('command_0')['rows'], kept['command_1']['row_count'], kept['rows']]"
    """))
    assert ran.result() == [[{"a": 1}], 1, [{"b": 2, "c": 3}]]
