"""Plans from short YAML, and a driver that plays broker and worker for one execution, without I/O."""

from collections.abc import Callable
from textwrap import dedent, indent
from typing import Any

from shared.answers.verify.verify import Violation, verify
from shared.dsl.compile import compile_playbook
from shared.dsl.model.plan import Plan
from shared.engine.pipeline import decide as pipeline
from shared.engine.pipeline.local_history import accept_loop
from shared.engine.pipeline.local_loop import LocalLoop
from shared.engine.pipeline.task_loop import elements
from shared.engine.routing import decide as routing
from shared.engine.routing.state import Execution, evolve
from shared.engine.scheduling import decide as scheduling
from shared.engine.scheduling.state import Schedule
from shared.engine.scheduling.state import evolve as evolve_schedule
from shared.events import model as ev
from shared.events.command import Command
from shared.events.outcome import Outcome, ok
from shared.events.record import Lease, Record, Writer, event_type
from shared.events.request import Request
from shared.events.stamp import stamp
from shared.tools import registry
from tests.support.playbooks import head

NOW = 1_800_000_000.0
HEAD = head("test", "tests/test")


def source_of(workflow: str, workload: str = "{}") -> str:
    return f"{HEAD}workload: {workload}\nworkflow:\n{indent(dedent(workflow), '  ')}"


def plan_of(workflow: str, workload: str = "{}") -> Plan:
    compiled = compile_playbook(source_of(workflow, workload), kinds=registry.specs(), file="test.yaml")
    assert compiled.plan is not None, [str(found) for found in compiled.diagnostics]
    return compiled.plan


Work = Callable[[str, str, dict[str, Any]], Outcome]


def nothing(_step: str, _task: str, _names: dict[str, Any]) -> Outcome:
    return ok(None)


class Driver:
    """The whole engine for one execution in memory. `work(step, task, names)` is every tool; `rows` are what a cursor
    can claim. `restored` is what the execution takes over from another."""

    def __init__(
        self, plan: Plan, work: Work = nothing, payload: dict[str, Any] | None = None, rows: list[Any] | None = None,
        restored: ev.PlaybookRestored | None = None,
    ) -> None:
        self.plan, self.work, self.rows = plan, work, rows or []
        self.log: list[Record] = []
        self.state = Execution("x1")
        self.schedule = Schedule("x1")
        self.queue: list[Command] = []
        request = Request("tests/test", payload=payload or {})
        self.append("router", routing.start("x1", request, "", plan, NOW, restored))

    @property
    def seq(self) -> int:
        return len(self.log)

    def append(self, writer: Writer, events: list[ev.Event], lease: Lease | None = None) -> None:
        n = 1 + sum(len(r.events) for r in self.log if r.writer == writer and r.lease == lease)
        record = Record("x1", writer, n, stamp(NOW + self.seq), tuple(events), self.seq, lease)
        self.log.append(record)
        if writer != "iteration":
            self.state = evolve(self.state, record, self.seq)
        if writer != "worker":
            self.schedule = evolve_schedule(self.schedule, [(self.seq, record)])
        for event in events:
            match event:
                case ev.StepScheduled(run_id=run_id) if run_id in self.schedule.runs:
                    self.queue.append(scheduling.run_command(self.schedule, self.schedule.runs[run_id], fresh=True))
                case ev.IterationStarted(run_id=run_id, first=first, count=count):
                    loop = self.schedule.loops[run_id]
                    step = self.plan.steps[loop.event.step]
                    if loop.is_local:
                        self.queue.append(scheduling.local_command(step, self.schedule, loop, {}, fresh=True))
                        continue
                    window = range(first, first + count)
                    self.queue += scheduling.loop_commands(step, self.schedule, loop, window, {}, fresh=True)
                case ev.FrameStarted(run_id=run_id):
                    self.queue.append(scheduling.frame_command(self.schedule, self.schedule.loops[run_id], fresh=True))

    def control(self) -> None:
        """Lets router and scheduler decide until neither has anything to say."""
        while True:
            routed = routing.decide(self.plan, self.state, NOW + self.seq)
            if routed:
                self.append("router", routed)
                continue
            scheduled = scheduling.decide(lambda _: self.plan, self.schedule, NOW + self.seq)
            if not scheduled:
                return
            self.append("scheduler", scheduled)

    def perform(self, command: Command, epoch: tuple[int, int] = (1, 1)) -> list[ev.Event]:
        """The events a worker writes for the command."""
        step = self.plan.steps[command.step]
        progress = pipeline.begin(step, command, {})
        events: list[ev.Event] = []
        while progress.state == "running":
            task = pipeline.task_at(step, progress)
            if task.loop is not None:
                progress = pipeline.entered(progress)
                found = elements(task, pipeline.around(command, progress, {}))
                arrived = pipeline.at_element(task, progress, found)
                if isinstance(arrived, ev.TaskDone):
                    events.append(arrived)
                    progress = pipeline.evolve(step, progress, arrived)
                    continue
                progress = arrived
            names = pipeline.names(command, progress, {})
            outcome = self.work(command.step, progress.task, names)
            for event in pipeline.decide(step, progress, outcome, names, "key"):
                events.append(event)
                progress = pipeline.evolve(step, progress, event)
        return [*events, pipeline.ending(progress, iteration=command.index >= 0)]

    def report(self, command: Command, events: list[ev.Event], epoch: tuple[int, int] = (1, 1)) -> None:
        writer: Writer = "worker" if command.index == -1 else "iteration"
        self.append(writer, events, Lease(command.run_id, command.step, epoch, "w1", command.index))

    def do(self, command: Command) -> None:
        if command.local is not None:
            self.work_through(command)
        elif command.index < -1:
            rows, self.rows = self.rows[: command.count], self.rows[command.count :]
            self.report(command, [ev.StepStarted(), ev.FrameClaimed(len(rows), rows)])
        else:
            self.report(command, self.perform(command))

    def work_through(self, command: Command, epoch: tuple[int, int] = (1, 1), most: int = 1000) -> LocalLoop:
        """A local loop, one iteration after the other; at most so many."""
        lease = Lease(command.run_id, command.step, epoch, "w1")
        self.append("iteration", [ev.StepStarted()], lease)
        local = LocalLoop(self.plan.steps[command.step], command)
        known = accept_loop(self.log, command.run_id)
        local.take_over(known.begun, known.ended, {})
        local.ask({})
        while most and (iteration := local.begin({})) is not None:
            events = self.perform(iteration)
            self.report(iteration, events, epoch)
            local.end(iteration.index, events[-1])
            local.ask({})
            most -= 1
        if local.is_halted:
            self.append("iteration", [ev.LoopHalted(local.next, local.index, local.error)], lease)
        return local

    def run(self, choose: Callable[[int], int] = lambda _: 0, most: int = 1000) -> "Driver":
        """Until nothing is left; `choose(n)` picks which of n queued commands is done next."""
        self.control()
        for _ in range(most):
            if not self.queue:
                return self
            self.do(self.queue.pop(choose(len(self.queue))))
            self.control()
        raise AssertionError(f"still running after {most} commands")

    def violations(self) -> list[Violation]:
        """What the checker says of the log. The driver leaves out `step.started`, so pipelines are not asked for."""
        found = verify("x1", list(enumerate(self.log, 1)), lambda _: self.plan)
        return [violation for violation in found if violation.rule != "pipeline"]

    def types(self, writer: Writer = "router") -> list[str]:
        return [event_type(event) for record in self.log if record.writer == writer for event in record.events]

    def steps(self) -> list[str]:
        """The steps in the order they were entered."""
        return [e.step for r in self.log for e in r.events if isinstance(e, ev.StepScheduled)]

    def find(self, kind: type[Any]) -> list[Any]:
        return [event for record in self.log for event in record.events if isinstance(event, kind)]
