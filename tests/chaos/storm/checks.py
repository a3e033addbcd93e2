"""What must be true when a storm is over: of the executions, of the calls in the ledger, of the services' words."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from shared.bus.topology import COMMAND_LEASE_S
from tests.chaos.storm.faults import BROKER, Fault
from tests.chaos.storm.ledger import UNKNOWN, Called
from tests.chaos.storm.work import Job

# A clock explains no second call.
CUTS = frozenset({"kill", "stop", "reset", "silent", "broker", "freeze", "leader", "node"})
MARGIN_S = 0.3          # between what the harness does and what a worker notices
# A worker that was away may have lost its lease to one that is itself away: the run is claimed when that one's lease is
# over, and the one call that is in flight then is made again.
LATER_S = {"stop": COMMAND_LEASE_S + MARGIN_S, "silent": COMMAND_LEASE_S + MARGIN_S}
AFTER_BROKER_S = 10.0   # until services have found a broker again that was away
FORBIDDEN = (
    "run.crashed", "execution.aside", "service.crashed", "record.refused", "command.corrupt", "projector.corrupt",
    "request.corrupt", "Traceback (most recent call last)",
)
_EVENT = re.compile(r'"event": ?"([a-z_.]+)"')
_LOUD = re.compile(r'"level": ?"(warning|error|critical)"')


class Problem(NamedTuple):
    """`executions`: whose story shows it."""

    what: str
    executions: tuple[str, ...] = ()


class Again(NamedTuple):
    """A call that was made a second time with the same key."""

    first: Called
    second: Called
    by: Fault | None


def check_ends(jobs: Mapping[str, Job], ends: Mapping[str, str], twice: Sequence[str]) -> Iterator[Problem]:
    for job in jobs.values():
        end = ends.get(job.execution_id)
        if end is None:
            yield Problem(f"{job.execution_id} ({job.path}) has not ended", (job.execution_id,))
        elif end not in job.ends:
            yield Problem(f"{job.execution_id} ({job.path}) ended as {end}, not {job.ends}", (job.execution_id,))
    for execution_id in twice:
        yield Problem(f"{execution_id} ended twice", (execution_id,))


def check_calls_made(jobs: Mapping[str, Job], ends: Mapping[str, str], calls: Iterable[Called]) -> Iterator[Problem]:
    """What completed has made all its calls."""
    made: dict[str, set[str]] = defaultdict(set)
    for call in calls:
        made[call.execution].add(call.what)
    for job in jobs.values():
        missing = job.calls - made[job.execution_id]
        if ends.get(job.execution_id) == "completed" and missing:
            yield Problem(f"{job.execution_id} ({job.path}) completed without {sorted(missing)}", (job.execution_id,))


def repeated(calls: Sequence[Called], faults: Sequence[Fault]) -> list[Again]:
    """Every second call of a key, with the fault that hit the worker of the call before, or its way to the broker, or
    the broker, between the two; None where there was none."""
    last: dict[str, Called] = {}
    found = []
    for call in calls:
        before = last.get(call.key)
        if before is not None:
            found.append(Again(before, call, explained((before.worker,), before.at, call.at, faults)))
        last[call.key] = call
    return found


def explained(workers: Sequence[str], since: float, until: float, faults: Sequence[Fault]) -> Fault | None:
    for fault in faults:
        if fault.kind not in CUTS or fault.began > until + MARGIN_S:
            continue
        if fault.victim == BROKER:
            hit = fault.ended + AFTER_BROKER_S >= since
        else:
            unknown = UNKNOWN in workers and fault.victim.startswith("worker")
            hit = (fault.victim in workers or unknown) and fault.ended + LATER_S.get(fault.kind, MARGIN_S) >= since
        if hit:
            return fault
    return None


def went_on(calls: Sequence[Called], faults: Sequence[Fault]) -> list[Again]:
    """Calls of a worker in a run that another one had gone on with meanwhile. HTTP calls alone: their keys name the
    run. `first` is the other worker's call before it."""
    runs: dict[str, list[Called]] = defaultdict(list)
    for call in calls:
        parts = call.key.split("/")
        if len(parts) == 4 and call.worker != UNKNOWN:
            runs["/".join(parts[:2])].append(call)
    found = []
    for made in runs.values():
        for at, call in enumerate(made):
            mine = [k for k, each in enumerate(made[:at]) if each.worker == call.worker]
            others = [each for each in made[mine[-1] + 1 : at] if each.worker != call.worker] if mine else []
            if others:
                workers = (call.worker, *(each.worker for each in others))
                found.append(Again(others[-1], call, explained(workers, made[mine[-1]].at, call.at, faults)))
    return found


def said(logs: Mapping[str, str]) -> tuple[list[Problem], Counter[str]]:
    """What no service may say, and how often each warning was said."""
    problems, warnings = list[Problem](), Counter[str]()
    for name, text in logs.items():
        for line in text.splitlines():
            for word in FORBIDDEN:
                if word in line:
                    found = tuple(re.findall(r"storm-\d+-\d+|\b[0-9a-f]{20}\b", line)[:1])
                    problems.append(Problem(f"{name} said {word}: {line[:600]}", found))
            if _LOUD.search(line) and (event := _EVENT.search(line)):
                warnings[event[1]] += 1
    return problems, warnings
