"""Values in SQL have the types their literals would have (LANGUAGE: SQL), on a real PostgreSQL."""

from typing import Any

import msgspec
import pytest

from tests.conformance.stand.lab import Lab, Ran, playbook, rows
from tests.support.servers.postgres import execute

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORKLOAD = {
    "n": 5, "big": 3_000_000_000, "f": 1.5, "yes": True, "text": "it's", "doc": {"a": [1]}, "list": [1, 2],
    "none": None, "evil": "$$; DROP TABLE seen; $v$ ' \\", "day": "2026-01-02", "table": "seen", "unit": "day",
}


async def query(lab: Lab, command: str) -> Ran:
    step = f"""
    - step: start
      tool: {{kind: postgres, auth: pg_k8s, command: {msgspec.json.encode(command).decode()}}}
    """
    return await lab.run(playbook(step), WORKLOAD)


async def one(lab: Lab, command: str) -> Any:
    ran = await query(lab, command)
    assert ran.status == "completed", ran.error
    return list(ran.result()["rows"][0].values())


@pytest.mark.parametrize(("expressions", "wanted"), [
    (["{{ n }}", "{{ big }}", "{{ f }}", "{{ yes }}", "{{ text }}", "{{ none }}"],
     [5, 3_000_000_000, 1.5, True, "it's", None]),
    ([f"pg_typeof({{{{ {name} }}}})::text" for name in ("n", "big", "f", "doc")],
     ["integer", "bigint", "numeric", "jsonb"]),
    (["{{ n }} * {{ n }}", "{{ n }} * 2", "-{{ n }} + {{ f }}"], [25, 10, -3.5]),
    (["{{ doc }}", "{{ list }}"], ['{"a": [1]}', "[1, 2]"]),
    (["jsonb_build_object('n', {{ n }}, 's', {{ text }}, 'd', {{ doc }}, 'x', {{ none }})"],
     [{"n": 5, "s": "it's", "d": {"a": [1]}, "x": None}]),
    (["'{{ n }}'", "'{{ n }}'::int + 1", "{{ n }}::text", "{{ n }}"], ["5", 6, "5", 5]),
    (["'[10, 20]'::jsonb -> {{ yes }}::int", "'[10, 20]'::jsonb -> {{ list[0] }}"], [20, 20]),
    (["{{ text }} = 'it''s'", "'n' || {{ n }}", "upper({{ text }})", "concat({{ n }}, {{ text }})"],
     [True, "n5", "IT'S", "5it's"]),
    (["{{ day }}", "'2026-01-02'::date = {{ day }}"], ["2026-01-02", True]),
])
async def test_a_value_has_the_type_of_its_literal(lab: Lab, expressions: list[str], wanted: list[Any]) -> None:
    await lab.database()
    columns = ", ".join(f"{each} AS c{index}" for index, each in enumerate(expressions))
    assert await one(lab, f"SELECT {columns}") == [_plain(each) for each in wanted]


def _plain(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, str) and value[:1] in "{[" else value


@pytest.mark.parametrize(("command", "wanted"), [
    ("SELECT id / {{ n }} AS part, count(*) FROM generate_series(0, 4) AS s(id) GROUP BY id / {{ n }}", [0, 5]),
    ("SELECT date_trunc('{{ unit }}', d)::date AS day, count(*) FROM (VALUES (timestamp '2026-01-02 03:04')) AS t(d)"
     " GROUP BY date_trunc('{{ unit }}', d)", ["2026-01-02", 1]),
    ("SELECT name FROM (VALUES ('5'), ('6')) AS t(name) WHERE name = {{ n }}", ["5"]),
    ("SELECT id FROM (VALUES (5), (6)) AS t(id) WHERE id = ANY({{ [n] }})", [5]),
    ("CREATE TEMP TABLE t (i int, s text); INSERT INTO t VALUES ({{ n }}, {{ n }}); SELECT i, s, {{ n }} AS n FROM t",
     [5, "5", 5]),
    ("BEGIN; CREATE TEMP TABLE u (j jsonb); INSERT INTO u VALUES (jsonb_build_object('n', {{ n }})); COMMIT;"
     " SELECT j, {{ n }} AS n FROM u", [{"n": 5}, 5]),
])
async def test_a_parameter_is_what_its_places_want_it_to_be(lab: Lab, command: str, wanted: list[Any]) -> None:
    await lab.database()
    assert await one(lab, command) == wanted


async def test_a_mapping_for_a_text_column_is_stored_as_it_was(lab: Lab) -> None:
    dsn = await lab.database()
    await execute(dsn, "CREATE TABLE seen (t text, i bigint, j jsonb)")
    ran = await query(lab, "INSERT INTO seen VALUES ({{ doc }}, {{ n }}, {{ doc }})")
    assert ran.status == "completed", ran.error
    assert await rows(dsn, "SELECT t, i, j FROM seen") == [('{"a":[1]}', 5, '{"a": [1]}')]


async def test_a_do_has_its_values_as_literals_whatever_they_hold(lab: Lab) -> None:
    dsn = await lab.database()
    await execute(dsn, "CREATE TABLE seen (n int, t text, j jsonb, quoted text)")
    ran = await query(lab, """DO $$
        DECLARE total int := {{ n }};
        BEGIN
          IF total > 0 THEN
            INSERT INTO {{ table }} VALUES (total * {{ n }}, {{ evil }}, {{ doc }}, 'a {{ evil }} b');
          END IF;
        END $$;
        SELECT count(*) FROM seen""")
    assert ran.status == "completed", ran.error
    assert ran.result()["rows"] == [{"count": 1}]
    evil = WORKLOAD["evil"]
    assert await rows(dsn, "SELECT n, t, j, quoted FROM seen") == [(25, evil, '{"a": [1]}', f"a {evil} b")]


async def test_an_unknown_function_is_still_the_servers_error(lab: Lab) -> None:
    await lab.database()
    ran = await query(lab, "SELECT nothing_of_that_name({{ n }})")
    assert (ran.status, ran.error["kind"], ran.error["code"]) == ("failed", "postgres", "42883")


INSERT = """
- step: start
  tool: {kind: python, code: "result = [{'id': 3, 'name': 'c'}]"}
  next: {arcs: [{step: store}]}
- step: store
  tool:
    - {name: one, kind: postgres, auth: pg_k8s, table: seen, args: {id: 1, name: "{{ workload.text }}"}}
    - name: two
      kind: postgres
      auth: pg_k8s
      table: seen
      args: [{id: 2, name: b}, {name: "{{ workload.unit }}", id: "{{ workload.n }}"}]
    - {name: three, kind: postgres, auth: pg_k8s, table: seen, args: "{{ start }}"}
"""


async def test_args_of_an_insert_are_a_row_or_a_list_of_rows(lab: Lab) -> None:
    dsn = await lab.database()
    await execute(dsn, "CREATE TABLE seen (id int, name text)")
    ran = await lab.run(playbook(INSERT), WORKLOAD)
    assert ran.status == "completed", ran.error
    assert await rows(dsn, "SELECT id, name FROM seen ORDER BY id") == [(1, "it's"), (2, "b"), (3, "c"), (5, "day")]
