"""What is found when faults are over: a table of figures, and what is wrong. Of the queue, the log, the read model and
the services' words it is found the same way, whatever the faults were."""

from collections.abc import Container, Mapping

from services.cli.verify.checker import Checker, Summary, everything
from services.cli.verify.read_model import ReadModel
from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from tests.chaos.driving.support import POOL, Process
from tests.chaos.storm.checks import Problem, said
from tests.support.terminal import say

PROJECT_S = 120.0
MAX_SHOWN = 20


class Findings:
    def __init__(self) -> None:
        self.rows: list[tuple[str, object]] = []
        self.problems: list[Problem] = []

    def row(self, what: str, figure: object) -> None:
        self.rows.append((what, figure))

    def problem(self, what: str, *executions: str) -> None:
        self.problems.append(Problem(what, executions))

    async def queue(self, bus: JetStreamBus) -> None:
        """Nothing is in it once nothing is due: what is left there, nobody will take."""
        asked = {"subjects_filter": ">"}
        stream = (await bus.requests.api(f"STREAM.INFO.{topology.COMMANDS}", asked))["state"]
        consumer = await bus.requests.api(f"CONSUMER.INFO.{topology.COMMANDS}.{POOL}")
        told = {name: consumer[name] for name in ("num_pending", "num_ack_pending", "num_redelivered")}
        self.row("commands left in the queue", f"{stream['messages']}; its consumer says {told}")
        for each in sorted(stream.get("subjects") or ()):
            self.problem(f"left in the queue: {each}; the consumer says {told}, {consumer['delivered']}, "
                         f"{consumer['ack_floor']}")

    async def verify(self, bus: JetStreamBus, dsn: str, asked_for: Container[str]) -> None:
        """`verify --all`. Whether those that were `asked_for` have ended is known already."""
        async with ReadModel(dsn) as model:
            summary: Summary = await everything(Checker(bus, topology.PARTITIONS, model, PROJECT_S))
        self.row("verify", summary.words().most_common())
        self.row("read model", summary.projections().most_common())
        for verdict in summary.listed.values():
            found = "; ".join(map(str, verdict.violations[:3]))
            self.problem(f"verify: {verdict.execution_id} {verdict.path} is {verdict.verdict}: "
                         f"{verdict.reason} {found}", verdict.execution_id)
        for execution_id, counts in summary.known.items():
            if counts.word == "unfinished" and execution_id not in asked_for:
                self.problem(f"{execution_id} has not ended", execution_id)
            if counts.projection != "same":
                self.problem(f"the read model of {execution_id} is {counts.projection}")
        self.row("dead letters", dead := await bus.last_seq(topology.DEAD))
        if dead:
            self.problem(f"{dead} dead letters")

    def words(self, processes: Mapping[str, Process]) -> None:
        problems, warnings = said({name: process.said() for name, process in processes.items()})
        self.problems += problems
        self.row("warnings in the logs", warnings.most_common(12))

    def tell(self) -> None:
        for what, figure in self.rows:
            say(f"  {what:<50} {figure}")
        say(f"{len(self.problems)} problems:" if self.problems else "  nothing is wrong")
        for problem in self.problems[:MAX_SHOWN]:
            say(f"  * {problem.what}")
