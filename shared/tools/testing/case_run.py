"""One case of a test: the playbook is rehearsed on its mocks, and the playbooks that it calls as well."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from shared.answers.playtests.coverage import Coverage
from shared.answers.rehearsal.order import Seeded
from shared.answers.rehearsal.rehearse import rehearse
from shared.answers.rehearsal.setting import Conditions, Faults, Limits, Opening
from shared.answers.rehearsal.types import Answered, Awaits, Ended, Need, Rehearsed, Wish
from shared.dsl.model.plan import Plan
from shared.dsl.playtests.model import Case, Mock, PlayTest
from shared.events import model as ev
from shared.events.outcome import Outcome, Result
from shared.events.request import derive_id
from shared.events.run_index import is_iteration
from shared.events.waits import Waits
from shared.tools import registry
from shared.tools.testing.effectless import natural
from shared.tools.testing.mocks import Mocks

EXECUTION = "test"
START = 1_767_225_600.0  # 2026-01-01T00:00:00Z, unless a case says when it begins
BY = "test"
MAX_EVENTS = 20_000  # in the log of one execution: a playbook that does not end must be reported soon
CRASH, DUP = 0.15, 0.15  # how often a fault comes, of all occasions
Real = Callable[[Need], Outcome]


class Chance(Struct, frozen=True):
    """What goes wrong in a run, by a seed."""

    seed: int
    crash: bool = False
    dup: bool = False
    reorder: bool = False


class Ran(Struct, frozen=True):
    """`missing` are the calls that no mock answers, in the children too; `unused` the mocks of the case that answered
    none, `shared` the places of those of the file that did; `children` the executions of called playbooks, `stuck` why
    some of them do not end."""

    found: Rehearsed
    plan: Plan
    missing: list[Need]
    unused: list[Mock]
    shared: set[int]
    children: list[tuple[Rehearsed, Plan]]
    stuck: list[str]


def run_case(
    test: PlayTest, case: Case, plans: Sequence[Plan], real: Real, *,
    chance: Chance | None = None, coverage: Mapping[str, Coverage] | None = None,
) -> Ran:
    """`plans`: the playbook under test first. `real` calls the tool of a kind that the case lets run. `coverage` of
    each playbook, by its path."""
    return _Run(test, case, plans, real, chance, coverage or {}).run()


class _Run:
    def __init__(
        self, test: PlayTest, case: Case, plans: Sequence[Plan], real: Real, chance: Chance | None,
        coverage: Mapping[str, Coverage],
    ) -> None:
        self._case, self._plan, self._real, self._chance = case, plans[0], real, chance
        self._plans = {plan.path: plan for plan in plans}
        self._mocks = Mocks(case.mocks, test.mocks, self._plan.path)
        self._coverage = coverage
        self._children: dict[str, tuple[Rehearsed, Plan]] = {}
        self._missing: dict[str, Need] = {}
        self._stuck: list[str] = []
        self._values: dict[str, Any] = {}

    def run(self) -> Ran:
        case = self._case
        wishes = [Wish(ev.SignalReceived(each.name, each.payload, BY), each.at) for each in case.signals]
        if case.cancel is not None:
            wishes.append(Wish(ev.CancelRequested(case.cancel.reason, BY), case.cancel.at))
        start = START if case.now is None else case.now
        found = self._rehearse(self._plan, Opening(execution_id=EXECUTION, at=start, payload=case.payload), wishes)
        return Ran(found, self._plan, list(self._missing.values()), self._mocks.unused(), self._mocks.shared(),
                   list(self._children.values()), self._stuck)

    def _rehearse(self, plan: Plan, opening: Opening, wishes: Sequence[Wish] = ()) -> Rehearsed:
        chance, coverage = self._chance, self._coverage.get(plan.path)
        seed = f"{chance.seed}/{opening.execution_id}" if chance is not None else ""
        depth = opening.parent.depth if opening.parent is not None else 0
        faults = Faults(CRASH if chance.crash else 0.0, DUP if chance.dup else 0.0) if chance is not None else Faults()
        conditions = Conditions(
            chooser=Seeded(seed) if chance is not None and chance.reorder else None, faults=faults, seed=seed,
            limits=Limits(events=MAX_EVENTS), values=self._values,
            watch=coverage.watch if coverage is not None else None,
        )
        found = rehearse(
            plan, lambda need: self._answer(need, depth), registry.specs(), opening, conditions, wishes)
        if coverage is not None:
            coverage.add(opening.execution_id, found.entries, found.values)
        return found

    def _answer(self, need: Need, depth: int) -> Answered:
        mocked = self._mocks.answer(need)
        if mocked is not None:
            return mocked
        answered: Answered = natural(need)
        if isinstance(answered, Waits) and answered.child is not None:
            if answered.child.path in self._plans:
                return self._child(need, answered, answered.child, depth)
            answered = None
        elif answered is None and need.kind in self._case.run and not _needs_credentials(need):
            answered = self._real(need)
        if answered is None:
            self._missing.setdefault(need.key, need)
        return answered

    def _child(self, need: Need, waits: Waits, child: ev.Child, depth: int) -> Answered:
        """The called playbook is rehearsed at once, once for a call; how it ends is reported when its time has come."""
        plan = self._plans[child.path]
        if need.key not in self._children:
            around = need.names.get("iter", {}) if is_iteration(need.index) or need.element >= 0 else {}
            parent = ev.Parent(
                execution_id=need.execution_id, run_id=need.run_id, wait="", index=need.index, returns=child.returns,
                iter=around, depth=depth + 1, detached=child.detached,
            )
            name = derive_id("child", need.key)
            ran = self._rehearse(
                plan, Opening(execution_id=name, at=need.at, payload=child.payload, parent=parent))
            self._children[need.key] = ran, plan
            if ran.status in ("stuck", "limit") and not ran.needs:
                self._stuck.append(f"playbook {plan.path}: {ran.reason}")
        found = self._children[need.key][0]
        if child.detached or found.status == "stuck" or found.status == "limit":
            return waits if child.detached else None
        wanted = found.state.results.get(child.returns) if child.returns else found.state.result
        return Awaits(waits, Ended(found.status, wanted or Result(), found.state.error, found.seconds))


def _needs_credentials(need: Need) -> bool:
    """A tool that is run for real has no keychain to ask."""
    return bool(need.auth or need.credentials)
