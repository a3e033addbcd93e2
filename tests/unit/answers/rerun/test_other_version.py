"""Whether an execution may continue with another version of its playbook."""

from typing import Any

import pytest

from shared.answers.rerun import other_version, rerun
from shared.dsl.model.plan import Plan
from shared.events import model as ev
from shared.events.outcome import Outcome, failed, ok
from tests.unit.engine.support import Driver, plan_of

WORKLOAD = "{url: 'http://a', tries: 3, db: {host: h, port: 1}}"
FLOW = """
- step: start
  tool: {kind: noop, args: {n: 1}}
  next: {arcs: [{step: fetch, when: "{{ workload.tries > 2 }}"}]}
- step: fetch
  tool: {kind: http, url: "{{ workload.url }}"}
  next: {arcs: [{step: load}]}
- step: load
  tool: {kind: noop, args: {a: "{{ fetch.a }}", host: "{{ workload.db.host }}"}}
  next: {arcs: [{step: last}]}
- {step: last, tool: {kind: noop}}
"""
LOOP = """
- step: start
  loop: {in: [1, 2, 3], iterator: n}
  tool: {kind: noop, args: {n: "{{ n }}"}}
"""


def stopped(flow: str, where: str, workload: str = WORKLOAD) -> Driver:
    """An execution that failed there, in a loop at its second element."""
    def work(step: str, _task: str, names: dict[str, Any]) -> Outcome:
        wrong = step == where and names.get("n", 2) == 2
        return failed("http", "503") if wrong else ok({"a": 1})

    driver = Driver(plan_of(flow, workload), work)
    driver.run()
    assert driver.state.status == "failed"
    return driver


def refused(driver: Driver, new: Plan, step: str = "", given: dict[str, Any] | None = None) -> str:
    entries = list(enumerate(driver.log, 1))
    found = rerun.from_step("x1", entries, step) if step else rerun.what_failed("x1", entries)
    assert isinstance(found, ev.PlaybookRestored)
    return other_version.refusal(driver.plan, new, rerun.kept(entries, found, step), found, given or {})


def changed(was: str, now: str) -> Plan:
    assert was in FLOW
    return plan_of(FLOW.replace(was, now), WORKLOAD)


@pytest.mark.parametrize(("was", "now"), [
    ("{a: \"{{ fetch.a }}\"", "{a: \"{{ fetch.a + 1 }}\", more: 2"),  # what failed is mended
    ("last", "other"),
    ("- {step: last, tool: {kind: noop}}", "\n\n- {step: last, tool: {kind: python, code: 'result = 1'}}"),
    ("- step: start\n", "# what it is for\n\n- step: start\n  desc: The first.\n"),
    ("kind: http, url", "kind: http, spec: {timeout: 5}, url"),
    ("- step: fetch\n", "- step: fetch\n  spec: {policy: {lifecycle: {timeout_s: 60}}}\n"),
])
def test_what_runs_again_may_be_changed_and_how_long_things_take(was: str, now: str) -> None:
    assert refused(stopped(FLOW, "load"), changed(was, now)) == ""


@pytest.mark.parametrize(("was", "now", "says"), [
    ("args: {n: 1}", "args: {n: 2}", "another step 'start', which is done: its tasks"),
    ("tries > 2", "tries > 1", "another step 'start', which is done: its arcs"),
    ("[{step: load}]", "[{step: last}, {step: load}]", "another step 'fetch', which is done: its arcs"),
    ("kind: http", "kind: http, method: POST", "another step 'fetch', which is done: its tasks"),
])
def test_what_is_done_may_not(was: str, now: str, says: str) -> None:
    assert refused(stopped(FLOW, "load"), changed(was, now)) == f"has {says}"


def test_a_step_that_is_gone_is_named() -> None:
    driver = stopped(FLOW, "load")
    renamed = plan_of(FLOW.replace("load", "store"), WORKLOAD)
    assert refused(driver, renamed) == "has no step 'load', where it would continue"
    shorter = "- {step: start, tool: {kind: noop, args: {n: 1}}}\n- {step: load, tool: {kind: noop}}\n"
    assert refused(driver, plan_of(shorter, WORKLOAD)) == "has no step 'fetch', which is done"


def test_from_a_step_only_what_came_before_it_is_kept() -> None:
    driver, new = stopped(FLOW, "load"), changed("kind: http", "kind: http, method: POST")
    assert refused(driver, new, "fetch") == ""
    assert "another step 'fetch'" in refused(driver, new, "load")


@pytest.mark.parametrize(("flow", "fits"), [
    (LOOP.replace("{n: \"{{ n }}\"}", "{m: 1}"), True),
    (LOOP.replace("iterator: n}", "iterator: n, spec: {mode: parallel, max_in_flight: 2}}"), True),
    (LOOP.replace("[1, 2, 3]", "[1, 2]"), False),
    (LOOP.replace("  loop: {in: [1, 2, 3], iterator: n}\n", ""), False),
])
def test_a_loop_continues_over_the_same_elements(flow: str, fits: bool) -> None:
    flow = flow.replace("{{ n }}", "x") if "loop" not in flow else flow
    reason = refused(stopped(LOOP, "start", "{}"), plan_of(flow))
    assert reason == ("" if fits else "has another loop in step 'start', of which 1 iterations are done")


ADMITS = """
- step: start
  tool: {kind: noop}
  next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
- step: a
  spec:
    policy:
      admit: {rules: [{when: "{{ workload.most > 5 }}", then: {allow: true}}, {else: {then: {allow: false}}}]}
  tool: {kind: noop}
- {step: b, tool: {kind: noop}}
"""


@pytest.mark.parametrize(("was", "now", "workload", "says"), [
    ("> 5", "> 0", "{most: 1}", "has another admission of step 'a', which has refused a token"),
    ("> 5", "> 5", "{most: 9}", "has another workload.most, and step 'a', which has refused a token, has read it"),
    ("tool: {kind: noop}\n- {step: b", "tool: {kind: noop, args: {n: 1}}\n- {step: b", "{most: 1}", ""),
])
def test_who_was_refused_stays_refused_and_so_its_admission_may_not_change(
    was: str, now: str, workload: str, says: str
) -> None:
    assert was in ADMITS
    assert refused(stopped(ADMITS, "b", "{most: 1}"), plan_of(ADMITS.replace(was, now), workload)) == says


@pytest.mark.parametrize(("loop", "given", "says"), [
    (LOOP.replace("[1, 2, 3]", '"{{ workload.xs }}"'), {}, "xs"),
    (LOOP.replace('{n: "{{ n }}"}', '{m: "{{ workload.xs }}"}'), {}, "xs"),
    (LOOP.replace("[1, 2, 3]", '"{{ workload.xs }}"'), {"xs": [1, 2, 3]}, ""),
    (LOOP, {}, ""),
])
def test_a_loop_of_which_some_is_done_has_read_what_its_elements_and_tasks_name(
    loop: str, given: dict[str, Any], says: str
) -> None:
    reason = refused(stopped(loop, "start", "{xs: [1, 2, 3]}"), plan_of(loop, "{xs: [1, 2, 3, 4]}"), given=given)
    what = f"has another workload.{says}, and step 'start', of which 1 iterations are done, has read it"
    assert reason == (what if says else "")


@pytest.mark.parametrize(("workload", "given", "says", "kept"), [
    (WORKLOAD, {}, "", {"url": "http://a", "tries": 3, "db": {"host": "h", "port": 1}}),
    (WORKLOAD.replace("host: h", "host: mended"), {}, "", {"url": "http://a", "tries": 3}),
    (WORKLOAD.replace("host: h", "host: mended"), {"db": {"port": 1}}, "",
     {"url": "http://a", "tries": 3, "db": {"port": 1}}),
    (WORKLOAD.replace("http://a", "http://b"), {}, "another workload.url, and step 'fetch', which is done, has read it",
     None),
    (WORKLOAD.replace("http://a", "http://b"), {"url": "http://a"}, "",
     {"url": "http://a", "tries": 3, "db": {"host": "h", "port": 1}}),
    (WORKLOAD.replace("tries: 3", "tries: 4"), {},
     "another workload.tries, and step 'start', which is done, has read it", None),
    (WORKLOAD.replace("tries: 3", "tries: 3, more: 1"), {}, "",
     {"url": "http://a", "tries": 3, "db": {"host": "h", "port": 1}}),
    (WORKLOAD.replace("'http://a'", "\"http://{{ workload.db.host }}\""), {}, "another workload.url", None),
])
def test_a_workload_that_is_written_otherwise_counts_where_nobody_has_read_it(
    workload: str, given: dict[str, Any], says: str, kept: dict[str, Any] | None
) -> None:
    driver, new = stopped(FLOW, "load"), plan_of(FLOW, workload)
    reason = refused(driver, new, given=given)
    assert says in reason if says else reason == ""
    if kept is not None:
        assert other_version.workload(driver.plan, new, driver.state.workload, given) == kept


def test_a_value_made_of_one_that_changed_has_changed() -> None:
    made = "{host: %s, url: \"http://{{ workload.host }}\", tries: 3, db: {host: h}}"
    driver = stopped(FLOW, "load", made % "a")
    assert "another workload.url, and step 'fetch'" in refused(driver, plan_of(FLOW, made % "b"))
