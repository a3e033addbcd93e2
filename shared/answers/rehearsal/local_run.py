"""A local loop in a rehearsal: one lease on all of its iterations, each a run of its own under the same epoch."""

from shared.engine import local_held
from shared.engine.held import History
from shared.engine.local import LocalLoop
from shared.engine.rehearsal_hold import Hold
from shared.engine.rehearsal_lease import FOREVER, LeaseHold, Stage, Steps
from shared.events import model as ev
from shared.events.command import Command
from shared.events.record import Epoch
from shared.events.stamp import seconds


class LocalHold(LeaseHold):
    def __init__(self, stage: Stage, command: Command, epoch: Epoch, *, fresh: bool) -> None:
        super().__init__(stage, command, epoch, fresh=fresh)
        assert command.local is not None
        self.own = "iteration"
        self._most = command.local.most
        self._loop = LocalLoop(self.step, command)
        self._before: dict[int, History] = {}
        self._running: list[Hold] = []

    def _run(self) -> Steps[None]:
        self._note(ev.StepStarted())
        if not self._fresh:
            records = [record for seq, record in self._stage.log.entries if seq >= self.command.cause]
            known = local_held.accept_loop(records, self.command.run_id)
            if known.over or known.epoch > self.lease.epoch:
                return
            self._before = dict(known.begun)
            self._loop.take_over(known.begun, known.ended, self.values)
        self._flush()
        self._loop.ask(self.values)
        while self._begin():
            yield min((hold.wake for hold in self._running), default=FOREVER)
            self._next()
            self._loop.ask(self.values)
        if self._loop.is_halted:
            self._halt(self._loop.index, self._loop.error)
        elif self._stage.is_paused:
            self._stage.leaves(self)

    def _begin(self) -> bool:
        """Begins what may begin now; False when nothing runs any more and nothing is left to begin."""
        while len(self._running) < self._most and not self._is_late() and not self._stage.is_paused:
            command = self._loop.begin(self.values)
            if command is None:
                break
            before = self._before.pop(command.index, History())
            self._running.append(Hold(self._stage, command, self.lease.epoch, fresh=False, before=before))
        return bool(self._running)

    def _next(self) -> None:
        """Whoever can go on does; those that have ended are counted in the order of their indexes."""
        for hold in sorted(self._running, key=lambda hold: hold.command.index):
            if hold.wake <= self._stage.now and not hold.go_on():
                self._running.remove(hold)
                assert hold.ended is not None, "an iteration of a local loop has no end"
                self._loop.end(hold.command.index, hold.ended)

    def _is_late(self) -> bool:
        """Over its time: the scheduler says so."""
        deadline = self.command.deadline
        return bool(deadline) and self._stage.now >= seconds(deadline)

    def _stopped(self) -> None:
        for hold in self._running:
            hold.stop()
        self._halt(-1, None)

    def _halt(self, index: int, error: "dict[str, object] | None") -> None:
        self._noted = []
        self._note(ev.StepStarted(), ev.LoopHalted(self._loop.next, index, error))
        self._flush()
        self.over = True
