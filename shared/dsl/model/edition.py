"""Editions of the language: which rules an execution goes by, to its end (ADR 32).

The log names the plan of an execution by the digest of its source, and from the second edition on by the edition too:
`<sha256>@2`. Whoever has that name has all that is needed to read the playbook as those did who began.

1. An undefined operand was an error. An arc with any `when` could take a failure. `else` took an outcome whose retries
   were used up, and so did the next policy of a formal `retry`. A best-effort loop was done when no iteration had
   succeeded.
2. Of a formal `case` the first rule that matched anything acted. `step.exit` was a success. `vars` of a loop step were
   those of each iteration. A workbook task's own `args` won over the call's. Admission saw no event. `output` was the
   outcome's result in some places alone, and these were nothing: the step's own name in its rules (it was the result of
   the run before), `<step>.results.<task>`, `result` of the step before, `job.execution_id`, `now()`. A template in the
   workload saw the texts of the workload's other templates. An `end` that no arc named did not run. A retry policy
   on `status_code` alone was about successes. A program got a whole table as a mapping alone through its step's `args`.
3. After a failed call a formal `response`, `this` and `result` were nothing. An iterator's bare name gave way to a
   key of `ctx` or `args` of the same name. A single task that waits `until` was called `task_0`. The error of a failed
   sink named it only where a rule leads on after failures. A rule with `call` alone took the step's own `next` with it.
   An error of a rule or an arc took the place of the failure it was asked about, and that of a retry the place of a
   call's success. Rules of a sink's own tool replaced the way on from it. What ended by its time or by the size of ctx
   did not say by which key.
4. `docs/dsl.md`.
"""

EDITION = 4
_MARK = "@"


def plan_name(digest: str, edition: int = EDITION) -> str:
    """How the log names the plan of a source with this digest."""
    return digest if edition == 1 else f"{digest}{_MARK}{edition}"


def source_of(plan: str) -> str:
    """The digest of the source of a plan."""
    return plan.partition(_MARK)[0]


def edition_of(plan: str) -> int:
    number = plan.partition(_MARK)[2]
    return int(number) if number.isdigit() else 1
