"""Every fragment of YAML in the five documents compiles and runs to its end on a real stack."""

import pytest

from shared.dsl.compile import compile_playbook
from shared.tools import registry
from tests.conformance.stand.api import Api
from tests.conformance.stand.fragments import CANONICAL, FORMAL, Fragment
from tests.conformance.stand.lab import Lab, playbook, rows
from tests.support.servers.postgres import execute

pytestmark = pytest.mark.asyncio(loop_scope="module")
TOKEN = "fragment-token"


async def ends_as_expected(lab: Lab, api: Api, fragment: Fragment) -> None:
    await lab.credential("openai_token", {"value": TOKEN})
    await lab.credential("pg_k8s", {"password": "of no use here"})
    api.pages = {"/page": [[7]]}
    api.broken = {("/page", 1): [503] * fragment.failing}
    ran = await lab.run(fragment.source, {"api_url": api.url})
    result = ran.result()
    payload = result["data"] if isinstance(result, dict) and "status_code" in result else result
    assert (ran.status, payload) == ("completed", fragment.result), ran.error
    assert sorted(ran.summary.steps) == sorted(fragment.steps)
    assert not fragment.failing or len(api.asked) == fragment.failing + 1


@pytest.mark.parametrize("name", CANONICAL)
async def test_canonical_fragment_runs_to_its_end(lab: Lab, api: Api, name: str) -> None:
    await ends_as_expected(lab, api, CANONICAL[name])
    compiled = compile_playbook(CANONICAL[name].source, kinds=registry.specs(), strict=True)
    assert compiled.plan is not None, [str(each) for each in compiled.diagnostics]


@pytest.mark.parametrize("name", FORMAL)
async def test_formal_fragment_runs_to_its_end(lab: Lab, api: Api, name: str) -> None:
    await ends_as_expected(lab, api, FORMAL[name])
    assert compile_playbook(FORMAL[name].source, kinds=registry.specs(), strict=True).plan is None


async def test_v10_2_1_a_declared_credential_reaches_its_call(lab: Lab, api: Api) -> None:
    await ends_as_expected(lab, api, CANONICAL["V10 2.1 keychain"])
    assert api.headers[-1]["x-token"] == TOKEN


async def test_fs_5_the_arguments_reach_the_task_of_the_workbook(lab: Lab, api: Api) -> None:
    await ends_as_expected(lab, api, FORMAL["FS 5 workbook"])
    assert api.queries[-1] == {"city": "Oslo"}


SINK = """
- step: start
  loop: {in: [1, 2, 3], iterator: n}
  tool: {kind: noop, args: {n: "{{ n }}"}}
  sink:
    tool:
      kind: postgres
      auth: pg_k8s
      table: kept
    args: {n: "{{ result.n }}"}
    when: "{{ result.n != 2 }}"
"""


async def test_fs_10_a_sink_runs_when_its_condition_holds(lab: Lab) -> None:
    dsn = await lab.database()
    await execute(dsn, "CREATE TABLE kept (n int)")
    ran = await lab.run(playbook(SINK))
    assert ran.status == "completed", ran.error
    assert await rows(dsn, "SELECT n FROM kept ORDER BY n") == [(1,), (3,)]


async def test_fs_9_2_conditions_inside_next_are_rejected_with_the_replacement() -> None:
    source = playbook("""
    - step: start
      tool: {kind: noop}
      next:
        - when: "{{ condition }}"
          then:
            - step: branch_a
        - step: default
    - {step: branch_a, tool: {kind: noop}}
    - {step: default, tool: {kind: noop}}
    """)
    found = compile_playbook(source, kinds=registry.specs()).diagnostics
    assert [(each.code, each.line) for each in found if each.severity == "error"] == [("DSL301", 10)]
    assert "case" in found[0].fix or "arcs" in found[0].fix
