"""A local loop in a rehearsal: one lease on all of its iterations, each a run of its own under the same epoch."""

from typing import Any

from shared.answers.rehearsal.lease import FOREVER, LeaseHold, Stage, Times
from shared.answers.rehearsal.step_run import Hold
from shared.engine.pipeline import effects as ef
from shared.engine.pipeline import local_history
from shared.engine.pipeline.local_history import LoopHistory
from shared.engine.pipeline.local_machine import LocalMachine
from shared.events import model as ev
from shared.events.command import Command
from shared.events.record import Epoch


class LocalHold(LeaseHold):
    def __init__(self, stage: Stage, command: Command, epoch: Epoch, *, fresh: bool) -> None:
        super().__init__(stage, command, epoch, fresh=fresh)
        self.machine: LocalMachine = LocalMachine(self.step, command, self.lease, self.values)
        self._running: list[Hold] = []

    def _run(self) -> Times[None]:
        yield from super()._run()
        if self._stage.is_paused and not self.machine.notes.over:
            self._stage.leaves(self)

    def stop(self) -> None:
        for hold in self._running:
            hold.stop()
        super().stop()

    def _read(self) -> LoopHistory:
        records = [record for seq, record in self._stage.log.entries if seq >= self.command.cause]
        return local_history.accept_loop(records, self.command.run_id)

    def _do(self, effect: ef.Effect) -> Times[Any]:
        match effect:
            case ef.IsStopping():
                return False
            case ef.IsPaused():
                return self._stage.is_paused
            case ef.ComeUp():
                return None  # every tool has a turn for everyone
            case ef.Begin(command=command, before=before):
                self._running.append(
                    Hold(self._stage, command, self.lease.epoch, fresh=False, before=before, loop=self))
            case ef.Next():
                return (yield from self._next())
            case _:
                return (yield from super()._do(effect))

    def _next(self) -> Times[list[tuple[int, ev.Event]]]:
        """Every iteration that can continue does, until one or more have ended."""
        ended: list[tuple[int, ev.Event]] = []
        while not ended:
            yield min((hold.wake for hold in self._running), default=FOREVER)
            for hold in sorted(self._running, key=lambda hold: hold.command.index):
                if hold.wake <= self._stage.now and not hold.go_on():
                    self._running.remove(hold)
                    assert hold.ended is not None, "an iteration of a local loop has no end"
                    ended.append((hold.command.index, hold.ended))
        return ended
