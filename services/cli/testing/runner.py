"""Runs the cases of test files and reports each result."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from services.cli.testing.faults import FAULTS
from services.cli.testing.missing_mock import call_of, mock_for
from services.cli.testing.suites import Suite
from shared.answers.playtests import fault_runs
from shared.answers.playtests.coverage import Coverage
from shared.answers.playtests.expectations import Came, Mismatch, came, judge
from shared.answers.playtests.fault_runs import Finding
from shared.answers.rehearsal.types import Need
from shared.answers.verify.verify import verify
from shared.dsl.model.diagnostics import Diagnostic
from shared.dsl.playtests.model import Case
from shared.dsl.playtests.playbooks import BY_ITSELF
from shared.events.outcome import Outcome
from shared.tools.testing.case_run import Chance, Ran, Real, run_case
from shared.tools.testing.mocks import BrokenMock

MAX_FINDINGS = 3  # reported of one case


class Options(Struct, frozen=True):
    """`faults` empty: every case is run once, plainly. Otherwise also with `seeds` seeds from `seed` on."""

    faults: tuple[str, ...] = ()
    seeds: int = 20
    seed: int = 1
    fail_fast: bool = False
    select: str = ""


class CaseFailure(Struct, frozen=True):
    """`what` is the expectation, or: mock (a call without one), unused, stuck, history, faults. `mock` is one to paste,
    for the `call`. `seed`: of a run under faults; `expected` and `got` are then the first decisions that differ."""

    what: str
    message: str
    expected: Any = None
    got: Any = None
    mock: str | None = None
    call: dict[str, Any] | None = None
    seed: int | None = None


class Explored(Struct, frozen=True):
    """`again`: calls made again with the same idempotency key, and in how many of the runs."""

    runs: int
    crashes: int
    again: dict[str, int]
    findings: list[Finding]


class CaseReport(Struct, frozen=True, rename={"came": "got"}):
    name: str
    line: int
    passed: bool
    seconds: float
    came: Came | None
    failures: list[CaseFailure]
    explored: Explored | None = None


class FileReport(Struct, frozen=True):
    file: str
    playbook: str
    valid: bool
    diagnostics: tuple[Diagnostic, ...]
    cases: list[CaseReport]
    warnings: list[str]

    @property
    def failed(self) -> int:
        return sum(not case.passed for case in self.cases)


def run_files(
    files: Sequence[Suite], options: Options, real: Real, coverage: dict[str, Coverage]
) -> Iterator[FileReport]:
    """`coverage` is filled: by the digest of the playbook."""
    for file in files:
        report = _run_file(file, options, real, coverage)
        yield report
        if options.fail_fast and (report.failed or not report.valid):
            return


def _run_file(file: Suite, options: Options, real: Real, coverage: dict[str, Coverage]) -> FileReport:
    compiled, test = file.compiled, file.compiled.test
    if test is None:
        return FileReport(file.file, "", False, compiled.diagnostics, [], [])
    mine = {plan.path: coverage.setdefault(plan.digest, Coverage(plan)) for plan in compiled.plans}
    cases: list[CaseReport] = []
    shared: set[int] = set()
    selected = [case for case in test.cases if options.select.lower() in case.name.lower()]
    for case in selected:
        report = _run_case(file, case, options, real, mine, shared)
        cases.append(report)
        if options.fail_fast and not report.passed:
            break
    warnings = []
    if len(cases) == len(test.cases):
        warnings = [f"the mock of {mock.step}.{mock.task} on line {mock.line} answers no call of any case"
                    for place, mock in enumerate(test.mocks) if place not in shared]
    return FileReport(file.file, compiled.plans[0].path, True, compiled.diagnostics, cases, warnings)


def _run_case(
    file: Suite, case: Case, options: Options, real: Real, coverage: dict[str, Coverage], shared: set[int]
) -> CaseReport:
    began = time.perf_counter()
    test, plans = file.compiled.test, file.compiled.plans
    assert test is not None
    try:
        known = remembering(real)
        ran = run_case(test, case, plans, known, coverage=coverage)
        shared |= ran.shared
        got = came(ran.found)
        failures = list(_failures(case, ran, got))
        explored = None
        if options.faults and not failures:
            explored = _explore(
                case, ran, got, options, lambda chance: run_case(test, case, plans, known, chance=chance))
            failures = [_told(finding, options) for finding in explored.findings]
    except BrokenMock as error:
        return CaseReport(case.name, case.line, False, _since(began), None, [CaseFailure("mock", str(error))])
    return CaseReport(case.name, case.line, not failures, _since(began), got, failures, explored)


def remembering(real: Real) -> Real:
    """A call that is made for real is made once, and remembered: what differs between two runs of a case is then the
    engine's doing and not the tool's."""
    known: dict[bytes, Outcome] = {}

    def call(need: Need) -> Outcome:
        key = msgspec.json.encode((need.key, need.config))
        if key not in known:
            known[key] = real(need)
        return known[key]

    return call


def _since(began: float) -> float:
    return round(time.perf_counter() - began, 6)


def _failures(case: Case, ran: Ran, got: Came) -> Iterator[CaseFailure]:
    yield from _missing(ran)
    for reason in ran.stuck:
        yield CaseFailure("stuck", reason)
    if got.status in ("stuck", "limit") and not (ran.missing or ran.stuck):
        yield CaseFailure("stuck", got.reason + (": it does not end" if got.status == "limit" else ""))
    if got.status not in ("stuck", "limit"):
        yield from map(_mismatch, judge(case.expect, got))
        for mock in ran.unused:
            yield CaseFailure("unused", f"the mock of {mock.step}.{mock.task} on line {mock.line} answers no call")
    for violation in violations(ran):
        yield CaseFailure("history", violation)


def _missing(ran: Ran) -> Iterator[CaseFailure]:
    """Calls without a mock; of those that one mock would answer the first is shown."""
    alike: dict[tuple[str, str, str, int], list[Need]] = {}
    for need in ran.missing:
        alike.setdefault((need.path, need.step, need.task, need.attempt), []).append(need)
    for need, *more in alike.values():
        message = f"no mock answers {need.step}.{need.task} ({need.kind}), attempt {need.attempt}"
        message += f", and {len(more)} more call{'s' if len(more) > 1 else ''} of it" if more else ""
        yield CaseFailure("mock", message, mock=mock_for(need, main=need.path == ran.plan.path), call=call_of(need))


def violations(ran: Ran) -> list[str]:
    """What is wrong with the logs, which must never be."""
    found = []
    for rehearsed, plan in ((ran.found, ran.plan), *ran.children):
        plans = {plan.digest: plan}
        told = verify(rehearsed.execution_id, rehearsed.entries, plans.__getitem__, rehearsed.values)
        found += [str(violation) for violation in told]
    return found


def _mismatch(found: Mismatch) -> CaseFailure:
    says = {"differs": "is not as expected", "missing": "is not there", "extra": "was not expected"}[found.how]
    return CaseFailure(found.what, f"{found.what} {says}", found.expected, found.got)


def _explore(
    case: Case, plain: Ran, first: Came, options: Options, run: Callable[[Chance], Ran]
) -> Explored:
    findings: list[Finding] = []
    again: dict[str, set[int]] = {}
    runs = crashes = 0
    for seed in range(options.seed, options.seed + options.seeds):
        ran = run(Chance(seed, *(fault in options.faults for fault in FAULTS)))
        second = came(ran.found)
        runs += 1
        for found, plan in ((ran.found, ran.plan), *ran.children):
            crashes += found.crashes
            for name in fault_runs.again(found, BY_ITSELF):
                name = name if plan is ran.plan else f"{plan.path}:{name}"
                again.setdefault(name, set()).add(seed)
        wrong = [Finding(seed, "history", violation) for violation in violations(ran)]
        both = (plain.found, first), (ran.found, second)
        wrong += fault_runs.compare(seed, case.expect, *both, any_order=case.order == "any")
        findings += wrong
        if len(findings) >= MAX_FINDINGS:
            break
    counts = {name: len(seeds) for name, seeds in sorted(again.items())}
    return Explored(runs, crashes, counts, findings[:MAX_FINDINGS])


def _told(finding: Finding, options: Options) -> CaseFailure:
    again = f"--faults {','.join(options.faults)} --seed {finding.seed} --seeds 1"
    plain, other = finding.decisions or (None, None)
    return CaseFailure("faults", f"{finding.message} (seed {finding.seed}: {again})", plain, other, seed=finding.seed)
