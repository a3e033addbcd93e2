"""A case run again under seeded faults and orders: what must stay the same, and where it does not."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from shared.answers.playtests.expectations import Came, differences, held
from shared.answers.rehearsal.types import Rehearsed
from shared.dsl.playtests.model import Expect
from shared.events import model as ev
from shared.events.failure import message_of
from shared.events.record import event_type

MAX_TEXT = 200  # characters of a decision that are shown


class Finding(Struct, frozen=True):
    """What is wrong with the run of a seed. `decisions` are the first that differ: the plain run's and this one's."""

    seed: int
    what: str
    message: str
    decisions: tuple[str, str] | None = None


def compare(
    seed: int, expect: Expect, plain: tuple[Rehearsed, Came], other: tuple[Rehearsed, Came], *, any_order: bool
) -> Iterator[Finding]:
    """Where a run ends otherwise than the plain one."""
    (one, first), (two, second) = plain, other
    if first.status != second.status:
        why = second.reason or message_of(second.error)
        message = f"{second.status} instead of {first.status}" + (f": {why}" if why else "")
        yield Finding(seed, "status", message, first_difference(one, two))
        return
    if not any_order:
        yield from _same(seed, first, second, one, two)
    for mismatch in held(expect, second):
        yield Finding(seed, "that", f"{mismatch.expected} does not hold: {mismatch.got}", first_difference(one, two))


def _same(seed: int, first: Came, second: Came, one: Rehearsed, two: Rehearsed) -> Iterator[Finding]:
    for what, ours, theirs in (("ctx", first.ctx, second.ctx), ("result", first.result, second.result)):
        found = next(differences(ours, theirs, what), None)
        if found is not None:
            message = f"{found.what} is {_short(found.got)} instead of {_short(found.expected)}"
            yield Finding(seed, what, message, first_difference(one, two))


def again(found: Rehearsed, silent: Sequence[str] = ()) -> set[str]:
    """The tasks, as `step.task`, of which a call was made more than once with one idempotency key; those of `silent`
    kinds have no effect that could come twice."""
    made: set[str] = set()
    repeated: set[str] = set()
    for need in found.calls:
        if need.key in made and need.kind not in silent:
            repeated.add(f"{need.step}.{need.task}")
        made.add(need.key)
    return repeated


def first_difference(one: Rehearsed, two: Rehearsed) -> tuple[str, str] | None:
    """The first decision of the router that is not the same in both logs."""
    ours, theirs = list(_decisions(one)), list(_decisions(two))
    for mine, yours in zip(ours, theirs, strict=False):
        if mine != yours:
            return mine, yours
    if len(ours) == len(theirs):
        return None
    at = min(len(ours), len(theirs))
    return (ours[at] if at < len(ours) else "nothing", theirs[at] if at < len(theirs) else "nothing")


def _decisions(found: Rehearsed) -> Iterator[str]:
    for _, record in found.entries:
        if record.writer == "router":
            for event in record.events:
                if isinstance(event, ev.CtxPatched | ev.NextSelected | ev.StepScheduled | ev.TokenRejected
                              | ev.StepCancelled | ev.PlaybookProcessed):
                    yield _told(event)


def _told(event: ev.Event) -> str:
    match event:
        case ev.CtxPatched(run_id=run_id, patch=patch):
            return _cut(f"ctx.patched by {run_id}: {_short(patch)}")
        case ev.NextSelected(run_id=run_id, event=boundary, arcs=arcs):
            return f"next.selected after {run_id} ({boundary}): {', '.join(arcs) or 'nothing'}"
        case ev.StepScheduled(run_id=run_id, args=args):
            return _cut(f"step.scheduled {run_id} with {_short(args)}")
        case ev.PlaybookProcessed(status=status):
            return f"playbook.processed: {status}"
    about = getattr(event, "run_id", "") or getattr(event, "step", "")
    return f"{event_type(event)} {about}"


def _short(value: object) -> str:
    return _cut(msgspec.json.encode(value).decode())


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"
