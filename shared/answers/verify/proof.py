"""What was proved about a history, in numbers: the other half of a clean verdict."""

import hashlib
from collections import Counter
from typing import Any

import msgspec
from msgspec import Struct

from shared.answers.history.history import History
from shared.answers.verify.records import LEASED
from shared.engine.values.ctx_patch import apply_patch
from shared.errors import TemplateError
from shared.events import model as ev
from shared.events.run_index import is_iteration


class Proof(Struct, frozen=True, kw_only=True):
    """`writers` are records and events by writer; everything else is counted from them.

    decisions  records of the router and the scheduler that were made again from what they had folded
    numbering  sequences of `n` without a gap: the router's, the scheduler's, one per lease
    reports    records of leases that count, and those that do not: fenced, repeated or late ones
    tasks      attempts that finished or were tried again; `named` ones have an outcome that names its call
    places     of limits that were given to runs, iterations and the execution
    ctx        patches folded, and the digest of what they leave
    """

    writers: dict[str, dict[str, int]]
    decisions: dict[str, int]
    numbering: int
    tokens: dict[str, int]
    runs: dict[str, int]
    reports: dict[str, int]
    tasks: dict[str, int]
    loops: dict[str, int]
    waits: dict[str, int]
    children: dict[str, int]
    places: int
    ctx: dict[str, Any]


def prove(history: History) -> Proof:
    """Counts a history; whether it is right is what `verify` says."""
    records = Counter(record.writer for _, record in history.entries)
    kinds = Counter(
        (record.writer, type(event)) for _, record in history.entries for event in record.events
    )
    leases = {record.lease for _, record in history.entries if record.lease is not None}
    own = [writer for writer in ("router", "scheduler") if records[writer]]
    return Proof(
        writers={writer: {"records": count, "events": _events(history, writer)} for writer, count in records.items()},
        decisions={"router": records["router"], "scheduler": records["scheduler"]}, numbering=len(own) + len(leases),
        tokens=_tokens(history), runs=_runs(history, kinds), reports=_reports(history, len(leases)),
        tasks=_tasks(history), loops=_loops(history, kinds),
        waits={"begun": kinds["waiting", ev.TaskWaiting], "over": kinds["scheduler", ev.TaskResumed]},
        children=_children(history), places=kinds["control", ev.LimitGranted], ctx=_ctx(history),
    )


def _events(history: History, writer: str) -> int:
    return sum(len(record.events) for _, record in history.entries if record.writer == writer)


def _tokens(history: History) -> dict[str, int]:
    count: Counter[str] = Counter(made=0, entered=0, rejected=0, absorbed=0)
    for _, _, event in history.events("router"):
        match event:
            case ev.TokenCreated():
                count["made"] += 1
            case ev.StepScheduled(tokens=tokens):
                count["entered"] += len(tokens)
            case ev.TokenRejected():
                count["rejected"] += 1
            case ev.TokenAbsorbed():
                count["absorbed"] += 1
    left = count["made"] - count["entered"] - count["rejected"] - count["absorbed"]
    return {**count, "left": left}


def _runs(history: History, kinds: Counter[tuple[Any, type[ev.Event]]]) -> dict[str, int]:
    """`unrouted` ended or were left behind while the execution was being cancelled or compensated, or are
    still under way."""
    ended = kinds["router", ev.NextSelected]
    cancelled = kinds["router", ev.StepCancelled]
    scheduled = len(history.scheduled)
    return {
        "scheduled": scheduled, "ended": ended, "cancelled": cancelled, "unrouted": scheduled - ended - cancelled,
        "compensating": sum(1 for _, event in history.scheduled.values() if event.compensates),
    }


def _reports(history: History, leases: int) -> dict[str, int]:
    counted = sum(len(held.kept) for held in history.held.values())
    return {"leases": leases, "counted": counted, "set_aside": len(history.by(*LEASED)) - counted}


def _tasks(history: History) -> dict[str, int]:
    finished = retried = named = 0
    for held in history.held.values():
        for _, record in held.kept:
            for event in record.events:
                if isinstance(event, ev.TaskDone):
                    finished += 1
                    named += event.outcome.call != ""
                elif isinstance(event, ev.TaskRetried):
                    retried += 1
                    named += event.outcome.call != ""
    return {"finished": finished, "retried": retried, "named": named}


def _loops(history: History, kinds: Counter[tuple[Any, type[ev.Event]]]) -> dict[str, int]:
    started = sum(
        event.count for _, _, event in history.events("scheduler") if isinstance(event, ev.IterationStarted)
    )
    ended = sum(1 for key, held in history.held.items() if is_iteration(key.index) and held.end)
    return {
        "started": kinds["scheduler", ev.LoopStarted], "done": kinds["scheduler", ev.LoopDone],
        "iterations_started": started, "iterations_ended": ended,
    }


def _children(history: History) -> dict[str, int]:
    asked, ended = set(), set()
    for _, _, event in history.events("waiting", "control"):
        match event:
            case ev.TaskWaiting(child=child) if child is not None:
                asked.add(child.execution_id)
            case ev.ChildEnded(child=child):
                ended.add(child)
    return {"asked": len(asked), "ended": len(ended)}


def _ctx(history: History) -> dict[str, Any]:
    ctx, patches = fold_ctx(history)
    digest = hashlib.sha256(msgspec.json.encode(ctx, order="deterministic")).hexdigest()
    return {"patches": patches, "keys": len(ctx), "digest": f"sha256:{digest}"}


def fold_ctx(history: History) -> tuple[dict[str, Any], int]:
    """ctx as the patches leave it, and how many there were; one that does not fit is the checker's to tell."""
    ctx: dict[str, Any] = {}
    patches = 0
    for _, _, event in history.events("router"):
        match event:
            case ev.PlaybookRestored(ctx=restored):
                ctx = restored
            case ev.CtxPatched(patch=patch):
                patches += 1
                try:
                    ctx = apply_patch(ctx, patch)
                except TemplateError:
                    continue
    return ctx, patches
