"""Which names mean what at which place: FX §3.2 and §3.3, FS §7.3, §8.3 and its appendix B, PIPE's variables."""

from typing import Any

import pytest
from msgspec.structs import replace

from shared.dsl.templates.evaluate import evaluate
from shared.events.outcome import Outcome, failed, ok
from tests.unit.dsl.lower.support import Answer, Ran, answer, page, run
from tests.unit.engine.support import Driver, plan_of

BUSY = failed("http", "busy", http={"status": 503})


def busy_once() -> Answer:
    left = [BUSY]
    return lambda _keys: left.pop() if left else page({"n": 5})


def calls(workflow: str, outcome: Answer) -> int:
    return len([name for name, _ in run(workflow, {"start_task": outcome}).calls if name == "start_task"])


# -- retry ------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", [
    "attempt == 1", "max_attempts == 4", "status_code == 503", "error == 'busy'", "success == false",
    "attempt < max_attempts",
])
@pytest.mark.parametrize("word", ["retry_when", "stop_when"])
def test_retry_reads_the_attempt_that_failed(test: str, word: str) -> None:
    """FS §7.3, appendix B: each name has its value, seen by a condition that holds for nothing else."""
    again = f"success == false and {test}" if word == "retry_when" else f"not ({test}) or success"
    retry = f'{{max_attempts: 4, {word}: "{{{{ {again} }}}}"}}'
    workflow = f"- {{step: start, tool: {{kind: http, url: 'http://x'}}, retry: {retry}}}"
    assert calls(workflow, busy_once()) == 2
    wrong = f'{{max_attempts: 4, retry_when: "{{{{ success == false and not ({test}) }}}}"}}'
    assert calls(f"- {{step: start, tool: {{kind: http, url: 'http://x'}}, retry: {wrong}}}", busy_once()) == 1


@pytest.mark.parametrize("name", ["result", "data"])
def test_retry_reads_the_last_result(name: str) -> None:
    """FS §7.3."""
    pages = [{"state": "RUNNING"}, {"state": "RUNNING"}, {"state": "DONE"}]
    workflow = f"""
    - step: start
      tool: {{kind: http, url: "http://x"}}
      retry: {{max_attempts: 9, stop_when: "{{{{ {name}.state == 'DONE' }}}}"}}
    """
    assert calls(workflow, lambda _: page(pages.pop(0))) == 3


@pytest.mark.parametrize(("when", "made"), [
    ("error.status == 503", 2), ("error.message == 'busy'", 2), ("error.kind == 'http'", 2),
    ("error is defined and status_code == 503", 2), ("error is defined and status_code == 500", 1),
    ("status_code == 503", 2), ("status_code >= 500 and attempt < 3", 2), ("status_code in [500, 502]", 1),
])
def test_policies_of_a_retry_read_raw_fields(when: str, made: int) -> None:
    """FX §3.3."""
    workflow = f"""
    - step: start
      tool: {{kind: http, url: "http://x"}}
      retry: [{{when: "{{{{ {when} }}}}", then: {{max_attempts: 2}}}}]
    """
    assert calls(workflow, lambda _: BUSY) == made


# -- case -------------------------------------------------------------------------------------

CASE = """
- step: start
  tool: {kind: http, url: "http://x"}
  case:
    - when: "{{ WHEN }}"
      then:
        sink: {tool: {kind: postgres, table: t}, args: {got: "{{ VALUE }}"}}
        set: {kept: "{{ VALUE }}"}
        next: two
- {step: two, tool: {kind: noop, args: {kept: "{{ vars.kept }}"}}}
"""


def case(when: str = "event.name == 'call.done'", value: str = "1", outcome: Outcome | None = None) -> Ran:
    workflow = CASE.replace("WHEN", when).replace("VALUE", value)
    return run(workflow, {"start_task": lambda _keys: outcome or page({"n": 5})})


@pytest.mark.parametrize(("when", "matches"), [
    ("event.name == 'call.done'", True), ("event.name == 'call.error'", False), ("event.name == 'step.exit'", True),
    ("response.status_code == 200", True), ("response.status_code == 404", False), ("response.data.n == 5", True),
    ("response.headers == {}", True),
])
def test_a_condition_of_a_case_reads_event_and_response(when: str, matches: bool) -> None:
    """FX §3.3, FS §8.3, appendix B."""
    assert ("two" in case(when).steps) == matches


@pytest.mark.parametrize(("value", "wanted"), [
    ("result", {"n": 5}), ("result.n", 5), ("this.data", {"n": 5}), ("this.status", "ok"), ("this.status_code", 200),
])
def test_what_a_rule_of_a_case_does_reads_result_and_this(value: str, wanted: Any) -> None:
    """FX §3.3, FS §8.3, appendix B: unwrapped, and with its envelope; in the sink and in what is set."""
    ran = case(value=value)
    assert ran.args("start_case_1_sink") == [{"got": wanted}]
    assert ran.args("two_task") == [{"kept": wanted}]


@pytest.mark.parametrize("outcome", [page({"n": 5}), BUSY], ids=["done", "failed"])
def test_what_a_rule_of_a_case_does_reads_how_the_call_went(outcome: Outcome) -> None:
    """FS §8.3: `this` has the meta of the call, also of one that failed."""
    told = replace(outcome, meta={"attempt": 1, "duration_s": 0.5})
    ran = case("event.name in ['call.done', 'call.error']", "this.meta.duration_s", told)
    assert (ran.args("start_case_1_sink"), ran.args("two_task")) == ([{"got": 0.5}], [{"kept": 0.5}])


def test_a_sink_and_vars_of_the_step_read_how_the_call_went() -> None:
    told = replace(page({"n": 5}), meta={"attempt": 1})
    ran = run("""
    - step: start
      tool: {kind: http, url: "http://x"}
      vars: {tried: "{{ this.meta.attempt }}"}
      sink: {tool: {kind: postgres, table: t}, args: {tried: "{{ this.meta.attempt }}"}}
    """, {"start_task": lambda _keys: told})
    assert (ran.args("start_sink"), ran.ctx) == ([{"tried": 1}], {"tried": 1})


def test_a_retry_of_a_case_reads_the_response() -> None:
    """FS appendix B."""
    ran = run("""
    - step: start
      tool: {kind: http, url: "http://x", params: {page: 1}}
      case:
        - when: "{{ event.name == 'call.done' and response.data.n < 3 }}"
          then: {retry: {max_attempts: 9, params: {page: "{{ response.data.n + 1 }}"}}}
    """, {"start_task": lambda keys: page({"n": keys["params"]["page"]})})
    assert [keys["params"]["page"] for _, keys in ran.calls] == [1, 2, 3]


@pytest.mark.parametrize("name", ["call.done", "step.exit"])
def test_in_a_loop_a_case_acts_on_every_iteration(name: str) -> None:
    """FX §5.4."""
    ran = run(f"""
    - step: start
      loop: {{in: [1, 2, 3], iterator: n}}
      tool: {{kind: noop, args: {{n: "{{{{ n }}}}"}}}}
      case:
        - when: "{{{{ event.name == '{name}' and result.n != 2 }}}}"
          then: {{sink: {{tool: {{kind: postgres, table: t}}, args: {{n: "{{{{ result.n }}}}"}}}}}}
      next: two
    - {{step: two, tool: {{kind: noop}}}}
    """)
    assert (ran.args("start_case_1_sink"), ran.steps) == ([{"n": 1}, {"n": 3}], ["start", "two"])


# -- everywhere -------------------------------------------------------------------------------


def test_args_of_a_step_read_workload_vars_results_and_the_execution() -> None:
    """FX §3.2, FS §2.3, appendix B."""
    ran = run("""
    - {step: start, tool: {kind: noop, args: {n: 3}}, vars: {kept: "{{ result.n + 1 }}"}, next: two}
    - step: two
      args: {all: ["{{ workload.w }}", "{{ vars.kept }}", "{{ start.n }}", "{{ execution_id }}"]}
      tool: {kind: noop, args: {got: "{{ all }}"}}
    """, w=1)
    assert ran.args("two_task") == [{"got": [1, 4, 3, "x1"]}]


def test_a_loop_binds_its_iterator_and_a_retry_its_numbers() -> None:
    """FX §3.2: the reserved name, and the one that `loop.iterator` says."""
    ran = run("""
    - step: start
      loop: {in: [a, b], iterator: letter}
      tool: {kind: noop, args: {at: "{{ letter }}{{ _retry.index }}{{ _retry.count }}"}}
      retry: [{when: "{{ response.at in ['a11', 'a22', 'b11'] }}", then: {max_attempts: 9}}]
    """)
    assert [found["at"] for found in ran.args("start_task")] == ["a11", "a22", "a33", "b11", "b22"]


def test_a_step_that_has_only_rules_is_one() -> None:
    """FX §2.2: a tool, a next or a case."""
    ran = run("""
    - {step: start, case: [{when: "{{ workload.n == 1 }}", then: {next: two}}], next: three}
    - {step: two, tool: {kind: noop}}
    - {step: three, tool: {kind: noop}}
    """, n=1)
    assert ran.steps == ["start", "two"]


def test_a_task_sees_the_results_before_it_by_their_names_and_the_last_one_as_prev() -> None:
    """V10 §7.5, DSL2 §3.4, PIPE: names of tasks are also those of their results."""
    plan = plan_of("""
    - step: start
      tool:
        - {name: one, kind: noop}
        - {name: two, kind: noop}
        - {name: three, kind: noop,
           args: {seen: ["{{ one.n | default(0) }}", "{{ one.data.n | default(0) }}", "{{ _prev.n | default(0) }}",
                         "{{ _task }}", "{{ _attempt }}"]}}
    """)
    seen: list[Any] = []

    def work(_step: str, task: str, names: dict[str, Any]) -> Outcome:
        if task == "three":
            seen.append(evaluate(plan.steps["start"].tasks[2].config["args"], names)["seen"])
        return ok({"n": {"one": 1, "two": 2}.get(task)})

    Driver(plan, work).run()
    assert seen == [[1, 1, 2, "three", 1]]


def test_vars_of_a_step_read_its_result() -> None:
    """FS §11.2, appendix B."""
    workflow = "- {step: start, tool: {kind: noop}, vars: {a: '{{ result.n }}', b: '{{ result.deep.m }}'}}"
    assert run(workflow, {"start_task": answer({"n": 1, "deep": {"m": 2}})}).ctx == {"a": 1, "b": 2}


def test_a_default_that_the_request_replaces_is_not_rendered() -> None:
    """It may read what only holds without a request's own value."""
    workload = "{n: '{{ 1 / 0 }}', deep: {m: '{{ n + 1 }}', k: 1}}"
    ran = run("- {step: start, tool: {kind: noop}}", workload=workload, n=4, deep={"k": 2})
    assert (ran.status, ran.driver.state.workload) == ("completed", {"n": 4, "deep": {"m": 5, "k": 2}})
    assert run("- {step: start, tool: {kind: noop}}", workload=workload).status == "failed"
