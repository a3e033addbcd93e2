"""Decisions of the language that need real tools and real services: results, time, large values, names."""

import os
import time
from typing import Any

import pytest

from shared.engine.values.ctx_patch import MAX_CTX_BYTES
from tests.conformance.stand.api import Api
from tests.conformance.stand.lab import Lab, playbook, rows
from tests.support.paths import EXAMPLES

pytestmark = pytest.mark.asyncio(loop_scope="module")

# -- results and templates --------------------------------------------------------------------


async def test_results_have_their_shape_and_answer_to_payload_and_envelope(lab: Lab, api: Api) -> None:
    await lab.database()
    api.pages = {"/page": [["Oslo", "Rome"]]}
    workflow = """
    - step: start
      tool: {kind: http, url: "{{ workload.url }}/page"}
      next: {arcs: [{step: query}]}
    - step: query
      tool: {kind: postgres, auth: pg_k8s, command: "SELECT n FROM generate_series(1, 3) AS n"}
      next: {arcs: [{step: each}]}
    - step: each
      spec: {policy: {failure: {mode: best_effort}}}
      loop: {in: "{{ query.rows }}", iterator: row, spec: {mode: parallel}}
      tool: {kind: python, args: {n: "{{ row.n }}"}, code: "result = {'square': 4 // (n - 2)}"}
      next: {arcs: [{step: collect}]}
    - step: collect
      tool:
        kind: noop
        args:
          http: ["{{ start.status_code }}", "{{ start.data.data[0] }}", "{{ start.paging.hasMore }}"]
          sql: ["{{ query[0].n }}", "{{ query.row_count }}", "{{ query.data | length }}", "{{ query.columns }}"]
          loop: ["{{ each.results }}", "{{ each.count }}", "{{ each.failed }}", "{{ each[2].square }}"]
    """
    ran = await lab.run(playbook(workflow), {"url": api.url})
    assert ran.status == "completed", ran.error
    assert ran.result() == {
        "http": [200, "Oslo", False],
        "sql": [1, 3, 3, ["n"]],
        "loop": [[{"square": -4}, None, {"square": 4}], 3, 1, 4],
    }


async def test_an_expression_keeps_its_type_and_text_is_never_parsed_again(lab: Lab) -> None:
    workflow = """
    - step: start
      tool:
        kind: python
        args: {n: "{{ workload.n }}", s: "{{ workload.s }}", l: "{{ workload.l }}", t: "n={{ workload.n }}"}
        code: "result = [[type(v).__name__ for v in (n, s, l, t)], s, t]"
    """
    ran = await lab.run(playbook(workflow), {"n": 1, "s": "1", "l": [1, "{{ 2 }}"]})
    assert ran.result() == [["int", "str", "list", "str"], "1", "n=1"]


async def test_an_undefined_name_is_an_outcome_of_kind_template_that_a_rule_can_handle(lab: Lab) -> None:
    workflow = """
    - step: start
      tool:
        - {name: plain, kind: python, args: {x: "{{ ctx.gone.far | default(5) }}"}, code: "result = x"}
        - name: broken
          kind: python
          args: {x: "{{ workload.gone.further }}"}
          code: "result = x"
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' and outcome.error.kind == 'template' }}"
                  then: {do: break, set_ctx: {why: "{{ outcome.error.message }}", before: "{{ plain }}"}}
    """
    ran = await lab.run(playbook(workflow))
    assert ran.status == "completed"
    assert ran.summary.ctx["before"] == 5
    assert "workload.gone" in ran.summary.ctx["why"]


async def test_values_in_sql_are_bound_and_names_are_quoted(lab: Lab) -> None:
    dsn = await lab.database()
    nasty = "x'); DROP TABLE people; --"
    workflow = """
    - step: start
      tool:
        - {name: make, kind: postgres, auth: pg_k8s, command: "CREATE TABLE {{ table | identifier }} (who text)"}
        - {name: put, kind: postgres, auth: pg_k8s,
           command: "INSERT INTO {{ table | identifier }} VALUES ({{ workload.who }})"}
        - {name: list, kind: postgres, auth: pg_k8s,
           command: "SELECT count(*) AS n FROM {{ table | identifier }} WHERE who = '{{ workload.who }}'"}
    """
    table = 'people"; DROP TABLE x; --'
    ran = await lab.run(playbook(workflow), {"who": nasty, "table": table})
    assert ran.result()["rows"] == [{"n": 1}], ran.error
    assert await rows(dsn, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == [(table,)]


async def test_python_runs_in_a_process_of_its_own(lab: Lab) -> None:
    ran = await lab.run(playbook("- {step: start, tool: {kind: python, code: 'import os; result = os.getpid()'}}"))
    assert ran.result() != os.getpid()
    assert isinstance(ran.result(), int)


# -- time -------------------------------------------------------------------------------------

SLEEP = "{kind: python, code: 'import time; time.sleep(30)'}"
RETRY = """{kind: python, code: "raise ValueError('no')", spec: {policy: {rules: [
      {when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 9, delay: 30}}]}}}"""
SPIN = """{name: spin, kind: noop, spec: {policy: {rules: [
  {when: "{{ iter.over | default(false) }}", then: {do: break}}, {else: {then: {do: jump, to: spin}}}]}}}"""
LOOP = "loop: {in: [1, 2, 3], iterator: n, spec: {mode: MODE}}, "


@pytest.mark.parametrize(
    ("extra", "lifecycle", "tool"),
    [
        ("", "timeout_s: 1", SLEEP),
        ("", "deadline_s: 1", SLEEP),
        ("", "timeout_s: 1", RETRY),
        ("", "timeout_s: 0.3", SPIN),
        (LOOP.replace("MODE", "parallel"), "timeout_s: 1", SLEEP),
        (LOOP.replace("MODE", "sequential"), "deadline_s: 1", SLEEP),
    ],
    ids=["timeout", "deadline", "retry wait", "jumps", "parallel loop", "sequential loop"],
)
async def test_a_step_over_its_time_fails_with_kind_timeout(lab: Lab, extra: str, lifecycle: str, tool: str) -> None:
    workflow = f"- {{step: start, {extra}spec: {{policy: {{lifecycle: {{{lifecycle}}}}}}}, tool: {tool}}}"
    began = time.monotonic()
    ran = await lab.run(playbook(workflow))
    assert (ran.status, ran.error["kind"]) == ("failed", "timeout")
    assert f"lifecycle.{lifecycle.partition(':')[0]} (" in ran.error["message"]
    assert time.monotonic() - began < 15


async def test_a_loop_over_its_time_tells_every_iteration_that_did_not_end(lab: Lab) -> None:
    workflow = """
    - step: start
      spec: {policy: {lifecycle: {timeout_s: 1.5}, failure: {mode: best_effort}}}
      loop: {in: [0, 30, 30, 30], iterator: s}
      tool: {kind: python, args: {s: "{{ s }}"}, code: "import time; time.sleep(s)"}
    """
    ran = await lab.run(playbook(workflow))
    (done,) = ran.of("loop.done")
    assert (ran.status, done["failed"]) == ("completed", 3)
    assert [(f["index"], f["error"]["kind"]) for f in done["failures"]] == [(n, "timeout") for n in (1, 2, 3)]


@pytest.mark.parametrize("limit", ["step_s", "execution_s"])
async def test_the_executor_bounds_every_step_and_the_whole_execution(lab: Lab, limit: str) -> None:
    root = f"executor: {{kind: distributed, spec: {{policy: {{defaults: {{timeouts: {{{limit}: 1}}}}}}}}}}\n"
    ran = await lab.run(playbook(f"- {{step: start, tool: {SLEEP}}}", root=root))
    assert (ran.status, ran.error["kind"]) == ("failed", "timeout")
    assert f"timeouts.{limit} of the executor" in ran.error["message"]


# -- large values -----------------------------------------------------------------------------

BIG = 300_000


async def test_a_large_result_is_a_reference_in_the_log_and_a_value_to_arcs_steps_and_loops(lab: Lab) -> None:
    workflow = """
    - step: start
      tool: {kind: python, args: {n: 300000}, code: "result = {'text': 'x' * n, 'parts': ['y' * 60000] * 5}"}
      next:
        arcs:
          - {step: wrong, when: "{{ event.result.text | length != 300000 }}"}
          - {step: use, when: "{{ start.text | length == 300000 }}"}
    - {step: wrong, tool: {kind: noop}}
    - step: use
      tool: {kind: python, args: {text: "{{ start.text }}"}, code: "result = len(text)"}
      next: {arcs: [{step: each}]}
    - step: each
      loop: {in: "{{ start.parts }}", iterator: part, spec: {mode: parallel}}
      tool: {kind: python, args: {part: "{{ part }}"}, code: "result = part"}
      next: {arcs: [{step: last}]}
    - step: last
      tool: {kind: python, args: {use: "{{ use }}", each: "{{ each }}"},
             code: "result = [use, [len(part) for part in each]]"}
    """
    ran = await lab.run(playbook(workflow))
    assert (ran.status, ran.result()) == ("completed", [BIG, [60_000] * 5])
    done = next(event for event in ran.events if event["event_type"] == "step.done")
    ref = done["payload"]["result"]["ref"]
    assert set(ref) == {"store", "key", "checksum", "size", "schema_hint"}
    assert ref["size"] > BIG
    assert ran.of("loop.started")[0]["items_ref"]["size"] > BIG
    assert ran.of("loop.done")[0]["result"]["ref"]["size"] > BIG
    assert max(len(str(event)) for event in ran.events) < 140_000


async def test_max_payload_bytes_says_what_is_large(lab: Lab) -> None:
    root = "executor: {kind: distributed, spec: {policy: {limits: {max_payload_bytes: 1000}}}}\n"
    ran = await lab.run(playbook("- {step: start, tool: {kind: python, code: \"result = 'x' * 1001\"}}", root=root))
    assert ran.of("step.done")[0]["result"]["ref"]["size"] == 1003


async def test_a_result_within_max_payload_bytes_always_fits_into_the_log(lab: Lab, api: Api) -> None:
    """The canonical example allows 1 MiB and keeps every page in iter, too (V10 §12, DSL2 §1.2)."""
    dsn = await lab.database()
    api.pages = {"/big": [["x" * 850_000]]}
    wanted = [{"path": "/big", "page_size": 1}]
    ran = await lab.run(EXAMPLES / "v10_pagination.yaml", {"api_url": api.url, "endpoints": wanted})
    assert (ran.status, ran.of("loop.done")[0].get("failed", 0)) == ("completed", 0)
    assert await rows(dsn, "SELECT length(items ->> 0) FROM results_ok") == [(850_000,)]


@pytest.mark.parametrize(
    ("tool", "limit"),
    [
        ("{kind: python, code: \"result = 'x' * (33 * 1024 * 1024)\"}", "result"),
        ("""{kind: python, code: "result = 'x' * 1000000", spec: {policy: {rules: [
           {else: {then: {do: continue, set_iter: {all: "{{ outcome.result.data }}"}}}}]}}}""", "iter"),
        ("""{kind: python, code: "result = 'x' * 300000", spec: {policy: {rules: [
           {else: {then: {do: continue, set_ctx: {all: "{{ outcome.result.data }}"}}}}]}}}""", "ctx"),
    ],
    ids=["result", "iter", "ctx"],
)
async def test_what_is_over_an_absolute_limit_fails_the_step_with_kind_limit(lab: Lab, tool: str, limit: str) -> None:
    ran = await lab.run(playbook(f"- {{step: start, tool: {tool}}}"))
    assert (ran.status, ran.error["kind"]) == ("failed", "limit"), ran.error
    if limit == "ctx":
        assert str(MAX_CTX_BYTES) in ran.error["message"]
    assert limit == "result" or f"{limit}.all of " in ran.error["message"]


async def test_a_loop_whose_iterations_fail_at_length_still_ends(lab: Lab) -> None:
    workflow = """
    - step: start
      spec: {policy: {failure: {mode: best_effort}}}
      loop: {in: "{{ range(151) | list }}", iterator: n, spec: {mode: parallel}}
      tool: {kind: python, args: {n: "{{ n }}"}, code: "if n: raise ValueError('y' * 20000)"}
    """
    ran = await lab.run(playbook(workflow))
    (done,) = ran.of("loop.done")
    assert (ran.status, done["failed"]) == ("completed", 150)
    assert 1 < len(done["failures"]) < 100
    assert len(str(done)) < 100_000


@pytest.mark.parametrize(
    ("items", "patch"),
    [("{{ ['x' * 300000] }}", "{}"), ("{{ range(9) | list }}", "{last: {$append: \"{{ 'x' * 50000 }}\"}}")],
    ids=["element", "ctx"],
)
async def test_a_loop_that_carries_too_much_fails_with_kind_limit(lab: Lab, items: str, patch: str) -> None:
    workflow = f"""
    - step: start
      loop: {{in: "{items}", iterator: n}}
      tool:
        kind: noop
        args: {{before: "{{{{ ctx.last | default('') | length }}}}"}}
        spec: {{policy: {{rules: [{{else: {{then: {{do: continue, set_ctx: {patch}}}}}}}]}}}}
    """
    ran = await lab.run(playbook(workflow))
    assert (ran.status, ran.error["kind"]) == ("failed", "limit"), ran.error


# -- requests ---------------------------------------------------------------------------------


async def test_the_payload_is_merged_deep_into_the_rendered_workload(lab: Lab) -> None:
    workflow = "- {step: start, tool: {kind: noop, args: {seen: '{{ workload }}'}}}"
    workload = '{db: {host: a, port: 1}, url: "http://{{ db.host }}", list: [1, 2]}'
    ran = await lab.run(playbook(workflow, workload=workload), {"db": {"host": "b"}, "list": [3], "raw": "{{ 1 }}"})
    seen: Any = {"db": {"host": "b", "port": 1}, "url": "http://b", "list": [3], "raw": "{{ 1 }}"}
    assert (ran.result(), ran.of("playbook.started")[0]["workload"]) == ({"seen": seen}, seen)


async def test_an_error_that_no_rule_matches_goes_on_and_stands_in_the_log(lab: Lab, api: Api) -> None:
    api.refused = {"/x": 418}
    workflow = """
    - step: start
      tool:
        - name: fetch
          kind: http
          url: "{{ workload.url }}/x"
          spec: {policy: {rules: [{when: "{{ outcome.http.status == 503 }}", then: {do: fail}}]}}
        - {name: after, kind: noop, args: {went: "on"}}
    """
    ran = await lab.run(playbook(workflow), {"url": api.url})
    assert (ran.status, ran.result()) == ("completed", {"went": "on"})
    assert ran.of("policy.unmatched") == [{"task": "fetch", "attempt": 1}]


async def test_a_keychain_entry_may_stand_for_a_credential_of_another_name(lab: Lab) -> None:
    await lab.credential("stored-elsewhere", {"token": "t-1234"})
    root = "keychain: [{name: api, kind: bearer, credential: stored-elsewhere}]\n"
    workflow = """
    - step: start
      tool: {kind: python, args: {t: "{{ keychain.api.token }}"}, code: "result = len(t)"}
    """
    assert (await lab.run(playbook(workflow, root=root))).result() == 6


async def test_what_is_written_under_the_name_of_the_keychain_does_not_change_it(lab: Lab) -> None:
    """V10 §2.1: its values are read-only."""
    await lab.credential("api", {"token": "t-1234"})
    workflow = """
    - step: start
      tool:
        - name: write
          kind: noop
          spec:
            policy:
              rules: [{else: {then: {do: continue, set_ctx: {keychain: {api: {token: x}}},
                                     set_iter: {keychain: {api: {token: x}}}}}}]
        - {name: read, kind: python, args: {t: "{{ keychain.api.token }}"}, code: "result = len(t)"}
      next: {arcs: [{step: after, args: {keychain: {api: {token: x}}}}]}
    - {step: after, tool: {kind: python, args: {t: "{{ keychain.api.token }}"}, code: "result = len(t)"}}
    """
    ran = await lab.run(playbook(workflow, root="keychain: [{name: api, kind: bearer}]\n"))
    assert [found["result"]["value"] for found in ran.of("step.done")] == [6, 6], ran.error
