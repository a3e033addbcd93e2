"""Whatever a playbook says, the compiler answers with a plan or with diagnostics, within its time and memory; and a
plan can be lowered again, drawn, analysed and rehearsed to an end, with a log that `verify` accepts."""

import random
import time
from typing import Any, NamedTuple

from shared.answers.rehearsal.order import Seeded
from shared.answers.rehearsal.rehearse import rehearse, result_of
from shared.answers.rehearsal.setting import Conditions, Faults, Limits, Opening
from shared.answers.rehearsal.types import Answered, Awaits, Ended, Need, Never, Took, Wish
from shared.answers.verify.verify import verify
from shared.dsl.authoring.diagram import dot, mermaid
from shared.dsl.authoring.diagram_svg import svg
from shared.dsl.check import token_net
from shared.dsl.check.join_net import too_few
from shared.dsl.compile import Compiled, compile_playbook
from shared.dsl.lower.lower import lower
from shared.dsl.model.diagnostic_codes import CODES
from shared.dsl.model.plan import Plan
from shared.dsl.source.load import load
from shared.events import model as ev
from shared.events.outcome import Outcome, Result, failed, ok
from shared.events.waits import Waits
from shared.tools import registry
from shared.tools.testing.effectless import natural
from tests.property.fuzz.playbook_changes import mutated
from tests.property.fuzz.runner import Fuzzer, Seen
from tests.support.inputs.bounds import DENSE_BYTES, MAX_S, peak_mb

KINDS = registry.specs()
MAX_MB = 50       # that one source may take
LIMITS = Limits(events=400)
VALUES: tuple[Any, ...] = (
    None, 0, 1, True, "x", "", [], [1, 2], [{"id": 1}, {"id": 2}], {"a": 1}, {"items": [1], "more": False},
    {"rows": []}, {"n": 5, "data": {"paging": {"hasMore": True}}}, "a" * 3000, {"$ref": 1},
)
ENDINGS = ("completed", "failed", "cancelled")


class Case(NamedTuple):
    source: bytes
    seed: int


def make(chance: random.Random) -> Case:
    return Case(mutated(chance), chance.randrange(2**32))


def promise(case: Case) -> Seen:
    compiled = _compiled(case.source)
    failing = any(each.severity == "error" for each in compiled.diagnostics)
    assert (compiled.plan is None) == failing
    assert list(compiled.diagnostics) == sorted(compiled.diagnostics)
    for each in compiled.diagnostics:
        assert each.code in CODES
        assert min(each.line, each.column) >= 1
        assert each.message
        assert each.fix
    if compiled.plan is None:
        return Seen(("refused",))
    _lowered(case.source)
    _looked_at(compiled.plan)
    return Seen(("compiles", _rehearsed(compiled.plan, case.seed)))


def _compiled(source: bytes) -> Compiled:
    """Within 200 ms of CPU time, of a source with more than 8 KiB in proportion."""
    before, taken, most = peak_mb(), float("inf"), MAX_S * max(1.0, len(source) / DENSE_BYTES)
    for _ in range(3):
        began = time.thread_time()
        compiled = compile_playbook(source, kinds=KINDS, file="p.yaml")
        taken = min(taken, time.thread_time() - began)
        if taken <= most:
            break
    assert taken <= most, f"compiling takes {taken:.2f} s"
    assert peak_mb() - before < MAX_MB
    return compiled


def _lowered(source: bytes) -> None:
    """Once is enough."""
    document, _ = load(source)
    assert document is not None
    once = lower(document, KINDS)
    assert lower(once.document, KINDS).document is once.document


def _looked_at(plan: Plan) -> None:
    token_net.analyse(plan)
    list(too_few(plan))
    for draw in (mermaid, dot, svg):
        assert draw(plan)


def _rehearsed(plan: Plan, seed: int) -> str:
    chance = random.Random(seed)
    faults = chance.choice((Faults(), Faults(0.1, 0.1)))
    chooser = chance.choice((None, Seeded(seed)))
    payload = chance.choice(({}, {"items": [1, 2], "n": 2}))
    opening = Opening(payload=payload, at=1.8e9)
    conditions = Conditions(chooser=chooser, faults=faults, seed=seed, limits=LIMITS)
    found = rehearse(plan, lambda need: _answer(need, seed), KINDS, opening, conditions, _wishes(chance))
    result_of(found)
    told = verify(found.execution_id, found.entries, {plan.digest: plan}.__getitem__, found.values)
    assert [str(each) for each in told] == []
    return found.status


def _wishes(chance: random.Random) -> list[Wish]:
    found = [Wish(ev.SignalReceived("go", chance.choice(VALUES), "ada"), 5.0)] if chance.random() < 0.5 else []
    drawn = chance.random()
    if drawn < 0.1:
        found.append(Wish(ev.CancelRequested("enough", "ada"), chance.choice((0.0, 3.0, 1000.0))))
    elif drawn < 0.2:
        found += [Wish(ev.PauseRequested("wait", "ada"), 1.0), Wish(ev.ResumeRequested("ada"), 60.0)]
    return found


def _answer(need: Need, seed: int) -> Answered:
    """The same call gets the same answer, whatever the order and however often it is made."""
    chance = random.Random(f"{seed}/{need.key}/{need.number}/{need.frame}")
    answered = natural(need) if need.frame < 0 else None
    if isinstance(answered, Waits) and answered.child is not None:
        ending = Ended(chance.choice(ENDINGS), Result(chance.choice(VALUES)), seconds=chance.choice((0.0, 9.0)))
        return Awaits(answered, ending)
    if answered is not None:
        return answered
    drawn = chance.random()
    if drawn < 0.02:
        return Never() if drawn < 0.01 else None
    outcome = _outcome(chance) if need.frame < 0 else _rows(chance)
    return Took(outcome, chance.choice((0.5, 700.0))) if drawn < 0.2 else outcome


def _outcome(chance: random.Random) -> Outcome:
    value = chance.choice(VALUES)
    match chance.randrange(6):
        case 0:
            return failed(chance.choice(("http", "timeout", "x")), "by chance", retryable=chance.random() < 0.5)
        case 1:
            return failed("http", "busy", http={"status": 503})
        case 2:
            return ok({"status_code": 200, "headers": {}, "data": value}, shape="http", http={"status": 200})
        case 3:
            return _rows(chance)
    return ok(value)


def _rows(chance: random.Random) -> Outcome:
    if chance.random() < 0.1:
        return failed("sql", "by chance")
    rows = [{"k": 1}, {"k": 2}][: chance.randrange(3)]
    return ok({"rows": rows, "row_count": len(rows), "columns": ["k"]}, shape="sql")


FUZZER = Fuzzer(
    "playbooks", make, promise, frozenset(("refused", "compiles", "completed", "failed")),
    most_s=10.0, show=lambda case: case.source.decode("utf-8", "backslashreplace") + f"\n# rehearsed with {case.seed}",
)
