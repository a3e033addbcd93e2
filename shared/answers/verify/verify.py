"""The checker: what must hold in the history of one execution, whatever happened on the way.

    beginning  the log has it from its first record on; otherwise nothing else is looked at
    record     each record is one its writer may write
    numbering  `n` has no gap
    decision   every decision follows from what its record says it had folded (`as_of`)
    token      made once, consumed once; a wave enters once
    run        scheduled once, ended once, as reported; compensated once if the execution does not complete
    terminal   a lease ends its run once
    ending     playbook.processed once and last
    loop       every iteration once, never too many at a time, done when all are
    ctx        nothing but the patches of accepted ends
    pipeline   tasks in order, no finished one again
    wait       one that its task has by the playbook; begun before it ends, ended once
    limit      nothing runs before it holds the place it waits for
    fence      a worker begins no call of a run that another one has claimed, once it can know
    overlap    no two workers are in calls of one run at the same time
    call       an outcome that names its call is the outcome of that call
    lease      a run that failed for lost leases has lost them

Whoever has more than the history adds three rules:

    value      a stored value is what the log says of it
    projection the rows of the read model are what the log folds to
    stuck      whatever is not over, something moves it, or someone can

Pure, for finished and unfinished histories alike. It raises `Missing` for a stored value that is not
among `values`: bring it and ask again.
"""

from collections.abc import Iterator, Sequence

from shared.answers.history.beginning import without_beginning
from shared.answers.history.history import Entry, History, PlanOf, Rule, Violation
from shared.answers.verify.decisions import check_decisions
from shared.answers.verify.fence import check_fence
from shared.answers.verify.limits import check_limits
from shared.answers.verify.loops import check_loops
from shared.answers.verify.lost_leases import check_leases
from shared.answers.verify.pipelines import check_pipelines
from shared.answers.verify.records import check_numbering, check_records, check_terminals
from shared.answers.verify.reports import history_of
from shared.answers.verify.tokens import (
    check_arcs,
    check_compensation,
    check_ctx,
    check_ending,
    check_runs,
    check_tokens,
    check_waves,
)
from shared.answers.verify.waits_and_limits import check_asked, check_waits
from shared.engine.values.stored_values import Values

__all__ = ["Rule", "Violation", "verify", "verify_alone", "verify_history"]
NO_VALUES: Values = {}


def verify(
    execution_id: str, records: Sequence[Entry], plan_of: PlanOf, values: Values = NO_VALUES
) -> list[Violation]:
    """What is wrong with the records of all writers, in log order; empty when nothing is."""
    return verify_history(history_of(execution_id, records), plan_of, values)


def verify_history(history: History, plan_of: PlanOf, values: Values = NO_VALUES) -> list[Violation]:
    if cut := without_beginning(history.entries):
        return [cut]
    derived = _derived(history, plan_of, values)
    return sorted([*derived, *_alone(history)], key=lambda found: found.seq)


def verify_alone(history: History) -> list[Violation]:
    """What the history says by itself, when the playbook or a stored value is gone."""
    if cut := without_beginning(history.entries):
        return [cut]
    return sorted(_alone(history), key=lambda found: found.seq)


def _derived(history: History, plan_of: PlanOf, values: Values) -> Iterator[Violation]:
    """What needs the playbook, or values that are stored beside the log."""
    yield from check_decisions(history, plan_of, values)
    yield from check_loops(history, values)
    yield from check_pipelines(history, plan_of)
    yield from check_leases(history, plan_of)
    yield from check_asked(history, plan_of)


def _alone(history: History) -> Iterator[Violation]:
    yield from check_records(history)
    yield from check_numbering(history)
    yield from check_tokens(history)
    yield from check_waves(history)
    yield from check_arcs(history)
    yield from check_runs(history)
    yield from check_compensation(history)
    yield from check_terminals(history)
    yield from check_ending(history)
    yield from check_ctx(history)
    yield from check_waits(history)
    yield from check_limits(history)
    yield from check_fence(history)
