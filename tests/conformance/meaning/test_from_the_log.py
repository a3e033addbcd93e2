"""What the log alone says of an execution under way (FX §9.3, §9.4), and what people may ask of one (FX §10.1)."""

from typing import Any

from shared.engine.pipeline import decide as pipeline
from shared.engine.pipeline.history import accept
from shared.engine.routing.state import Execution, evolve
from shared.engine.scheduling.state import Schedule
from shared.engine.scheduling.state import evolve as evolve_schedule
from shared.events import model as ev
from shared.events.outcome import Outcome, failed, ok
from shared.events.record import Kept, Record, decode, encode, envelopes, subject_of
from tests.unit.engine.support import Driver, plan_of

WORKFLOW = """
- step: start
  tool:
    kind: noop
    spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {seen: "{{ outcome.result.n }}"}}}}]}}
  next: {spec: {mode: inclusive}, arcs: [{step: each}, {step: paged, args: {from: 4}}]}
- step: each
  loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: noop}
- step: paged
  tool:
    - name: fetch
      kind: noop
      spec:
        policy:
          rules:
            - {when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 3}}
            - else: {then: {do: continue, set_iter: {page: "{{ outcome.result.n }}"}}}
    - {name: store, kind: noop}
"""
PLAN = plan_of(WORKFLOW, "{items: [a, b, c]}")


def halfway() -> Driver:
    """Two of three iterations are done, and of `paged` a second attempt has succeeded."""
    tried: list[str] = []

    def work(step: str, task: str, _names: dict[str, Any]) -> Outcome:
        tried.append(task)
        return failed("busy", "no") if task == "fetch" and tried.count("fetch") == 1 else ok({"n": 7, "of": step})

    run = Driver(PLAN, work)
    run.control()
    run.do(run.queue.pop(0))
    run.control()
    for command in [each for each in run.queue if each.step == "each"]:
        run.do(command)
    paged = next(each for each in run.queue if each.step == "paged")
    run.report(paged, [ev.StepStarted(), *run.perform(paged)[:2]])
    run.control()
    return run


def read_back(run: Driver) -> list[tuple[int, Record]]:
    """The records as they are stored."""
    return [(seq, decode(Kept(subject_of(each, 4), encode(each), seq), 4)) for seq, each in enumerate(run.log, 1)]


def test_where_an_execution_is_follows_from_its_log() -> None:
    """FX §9.4: current steps, vars, the position of loops and retries, completed results."""
    records = read_back(halfway())
    state, schedule = Execution("x1"), Schedule("x1")
    for seq, record in records:
        if record.writer != "iteration":
            state = evolve(state, record, seq)
        if record.writer != "worker":
            schedule = evolve_schedule(schedule, [(seq, record)])
    assert (state.status, sorted(state.runs), state.ctx) == ("running", ["each:1", "paged:1"], {"seen": 7})
    assert state.results["start"].value == {"n": 7, "of": "start"}
    loop = schedule.loops["each:1"]
    assert (loop.next, sorted(loop.live), [index for index, _ in loop.results.items()]) == (3, [2], [0, 1])


def test_whoever_takes_a_run_over_begins_after_the_last_task_that_is_done() -> None:
    """FX §5.3, §9.4, PIPE: the attempts, what was set and the results are those of the log."""
    run = halfway()
    command = next(each for each in run.queue if each.step == "paged")
    step = PLAN.steps["paged"]
    known = accept([record for _, record in read_back(run)], "paged:1", -1)
    progress = known.progress(step, pipeline.begin(step, command, {}))
    assert (progress.task, progress.attempt, progress.iter, progress.ran) == ("store", 1, {"page": 7}, 2)
    assert (progress.prev.value, command.args) == ({"n": 7, "of": "paged"}, {"from": 4})


def test_the_same_record_again_changes_nothing() -> None:
    """FX §9.3."""
    run = halfway()
    before = (run.state, run.schedule)
    report = next(each for each in reversed(run.log) if each.writer == "iteration")
    (ended,) = [each for each in run.log if each.writer == "worker" and isinstance(each.events[-1], ev.StepDone)]
    for seq, record in enumerate((report, ended), run.seq + 1):
        run.state = evolve(run.state, record, seq) if record.writer == "worker" else run.state
        run.schedule = evolve_schedule(run.schedule, [(seq, record)]) if record.writer != "worker" else run.schedule
    assert (run.state.runs, run.state.results, run.state.ctx) == (before[0].runs, before[0].results, before[0].ctx)
    loops = [(each.loops["each:1"].ended, each.loops["each:1"].live) for each in (run.schedule, before[1])]
    assert loops[0] == loops[1]
    assert run.run().find(ev.LoopDone)[0].count == 3


def test_every_event_has_an_id_of_its_own_that_is_the_same_for_every_reader() -> None:
    """FX §9.3: (execution_id, event_id) names one event."""
    first, again = ([each["event_id"] for record in halfway().log for each in envelopes(record)] for _ in range(2))
    assert len(set(first)) == len(first)
    assert first == again


def test_a_paused_execution_starts_nothing_until_it_is_resumed() -> None:
    """FX §10.1: what runs may end; nothing follows from it."""
    run = Driver(plan_of("""
    - {step: start, tool: {kind: noop}, next: {arcs: [{step: after}]}}
    - {step: after, tool: {kind: noop}}
    """))
    run.control()
    run.append("control", [ev.PauseRequested(by="ada", at=1)])
    run.control()
    run.do(run.queue.pop())
    run.control()
    assert (run.steps(), [each.by for each in run.find(ev.PlaybookPaused)], run.state.status) == (
        ["start"], ["ada"], "running")
    run.append("control", [ev.ResumeRequested(by="ada", at=2)])
    assert run.run().steps() == ["start", "after"]
    assert (len(run.find(ev.PlaybookResumed)), run.state.status) == (1, "completed")


def test_the_first_events_of_an_execution_come_in_their_order() -> None:
    """FX §4.1, FS §3.2, §3.3: requested, checked, started with the merged workload, and then the first step."""
    run = Driver(plan_of("- {step: start, tool: {kind: noop}}", "{a: {b: 1}}"), payload={"a": {"c": 2}})
    run.control()
    first = run.log[0].events
    assert [type(each) for each in first] == [
        ev.ExecutionRequested, ev.RequestEvaluated, ev.PlaybookStarted, ev.WorkflowStarted, ev.TokenCreated,
        ev.StepScheduled]
    assert (run.find(ev.ExecutionRequested)[0].payload, run.find(ev.PlaybookStarted)[0].workload) == (
        {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}})
    assert run.find(ev.StepScheduled)[0].step == "start"
