"""Tools of today's playbooks on real services: shell programs, stored results, rows between databases."""

import pytest

from tests.conformance.stand.lab import Lab, playbook, rows
from tests.support.servers.snowflake import CREDENTIAL, fake_snowflake

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_values_reach_a_shell_as_data_and_exit_codes_reach_arcs(lab: Lab) -> None:
    workflow = """
    - step: start
      tool:
        kind: shell
        cmds:
          - said="{{ workload.text }}"
          - |
            if [ "{{ workload.flag }}" = "true" ]; then
              echo "$said" {{ workload.text }}
            fi
            exit 100
      next:
        arcs:
          - {step: end, when: "{{ event.error.exit_code == 1 }}"}
          - {step: clean, when: "{{ event.name == 'step.failed' and event.error.exit_code == 100 }}"}
    - step: end
    - step: clean
      tool: {kind: shell, command: "echo '{\\"left\\": {{ workload.left }}}'", output: json}
      next: show
    - step: show
      tool: {kind: noop, args: {left: "{{ clean.data.left }}", code: "{{ clean.exit_code }}"}}
    """
    ran = await lab.run(playbook(workflow, workload="{text: \"a'b $(exit 1)\", flag: true, left: 3}"))
    assert (ran.status, ran.result()) == ("completed", {"left": 3, "code": 0})
    (done,) = ran.of("task.done", task="start_task")
    assert done["outcome"]["result"]["stdout"] == "a'b $(exit 1) a'b $(exit 1)\n"


async def test_a_stored_result_is_read_by_its_reference(lab: Lab) -> None:
    workflow = """
    - step: start
      tool: {kind: python, code: "result = {'count': 2, 'items': ['x' * 200_000, 'y']}"}
      next: load
    - step: load
      tool: {kind: artifact, action: get, args: {result_ref: "{{ start._ref }}"}}
      next: part
    - step: part
      tool: {kind: artifact, result_ref: "{{ start._ref }}", path: items.1}
      next: show
    - step: show
      tool: {kind: noop, args: {n: "{{ load.count }}", last: "{{ load.data['items'][1] }}", part: "{{ part }}"}}
    """
    ran = await lab.run(playbook(workflow))
    assert (ran.status, ran.result()) == ("completed", {"n": 2, "last": "y", "part": "y"})
    (loaded,) = ran.of("task.done", task="load_task")
    assert loaded["outcome"]["ref"]["size"] > 200_000


async def test_rows_travel_between_databases_by_the_credentials_each_end_names(lab: Lab) -> None:
    dsn = await lab.database()
    await lab.credential("lake", {"dsn": dsn})
    await lab.credential("nobody", {"dsn": dsn.replace("postgres:@", "postgres:open-sesame@")})
    await lab.credential("cloud", CREDENTIAL)
    workflow = """
    - step: start
      tool:
        kind: snowflake
        auth: "{{ workload.cloud }}"
        command: |
          CREATE TABLE {{ workload.from }} (id INTEGER, name STRING, doc VARIANT);
          INSERT INTO {{ workload.from }} SELECT 1, '{{ workload.name }}', PARSE_JSON('{"k": 1}');
      next: made
    - step: made
      tool: {kind: postgres, auth: lake, command: "CREATE TABLE people (id int PRIMARY KEY, name text, doc jsonb)"}
      next: copied
    - step: copied
      tool:
        kind: transfer
        source:
          tool: snowflake
          auth: {source: credential, tool: snowflake, key: "{{ workload.cloud }}"}
          query: SELECT * FROM FROM_THERE WHERE name = '{{ workload.name }}'
        target:
          type: postgres
          auth: {source: credential, key: nobody}
          query: |
            INSERT INTO {{ workload.to }} (id, name, doc) VALUES (%s, %s, %s) ON CONFLICT (id) DO NOTHING
        chunk_size: "{{ workload.size }}"
      sink: {tool: {kind: snowflake, auth: cloud, table: from_there}, args: {id: "{{ result.rows_written + 1 }}"}}
      next: show
    - step: show
      tool: {kind: snowflake, auth: cloud, command: SELECT MAX(id) AS n FROM FROM_THERE}
      next: end
    - step: end
      tool: {kind: noop, args: {copied: "{{ copied.rows_written }}", last: "{{ show.rows[0].N }}"}}
    """
    given = f"""{{cloud: cloud, from: FROM_THERE, to: people, size: 10, name: "O'Neil",
                  folder: {lab.folder / "lake"}}}"""
    with fake_snowflake():
        ran = await lab.run(playbook(workflow, workload=given))
    assert (ran.status, ran.result()) == ("completed", {"copied": 1, "last": 2})
    assert await rows(dsn, "SELECT id, name, doc->>'k' FROM people") == [(1, "O'Neil", "1")]
    assert "sesame" not in str(ran.records) + lab.log
    assert CREDENTIAL["sf_password"] not in str(ran.records) + lab.log
