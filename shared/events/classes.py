"""Events by what they end. A worker speaks of its lease, router and scheduler of a run.

A worker's last event ends its lease (`ENDS_LEASE`). With most of them what it holds is over too, whoever might hold it
next (`ENDS_WORK`): the pipeline of a run or an iteration (`ENDS_PIPELINE`), a frame of rows, a local loop as a whole.
With the other two it is not: a task that waits comes back to a worker when its wait is over, a lease that is handed
back goes to the next one.

A local loop that has halted is no end of its run: the scheduler, which hears of it, decides on that.
"""

from shared.events import model as ev

ENDS_PIPELINE = ev.StepDone | ev.StepFailed | ev.IterationDone | ev.IterationFailed
ENDS_WORK = ENDS_PIPELINE | ev.FrameClaimed | ev.FrameFailed | ev.LoopHalted
ENDS_LEASE = ENDS_WORK | ev.TaskWaiting | ev.LeaseReleased

# What router and scheduler say of the run that `run_id` names, its iterations included.
ENDS_RUN = ev.LoopDone | ev.StepFailed | ev.StepCancelled | ev.NextSelected
