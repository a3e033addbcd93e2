"""The pool of a step that requires capabilities: chosen once, and the log says which."""

from shared.answers.verify.verify import verify
from shared.dsl.compile import compile_playbook
from shared.dsl.model.plan import Plan
from shared.engine.pools.placement import Offer, Unplaced, choose
from shared.engine.routing import decide as routing
from shared.events import model as ev
from shared.events.record import Record
from shared.events.request import Request
from shared.events.stamp import stamp
from shared.tools import registry

SOURCE = b"""apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: needy}
workflow:
  - {step: start, spec: {requires: [gpu, eu]}, tool: {kind: noop}, next: {arcs: [{step: more}]}}
  - {step: more, tool: {kind: noop}}
"""
NOW = 1_700_000_000.0


def plan() -> Plan:
    compiled = compile_playbook(SOURCE, kinds=registry.specs())
    assert compiled.plan is not None, compiled.diagnostics
    return compiled.plan


def offer(pool: str, *provides: str, paused: bool = False) -> Offer:
    return Offer(pool, frozenset(provides), paused)


def test_the_first_by_name_that_provides_all_is_chosen() -> None:
    offers = [offer("c", "gpu", "eu"), offer("b", "gpu", "eu", "big"), offer("a", "gpu")]
    assert choose(plan().steps, offers) == {"start": "b"}


def test_a_paused_pool_is_chosen_only_when_there_is_no_other() -> None:
    paused = offer("a", "gpu", "eu", paused=True)
    assert choose(plan().steps, [paused, offer("z", "gpu", "eu")]) == {"start": "z"}
    assert choose(plan().steps, [paused]) == {"start": "a"}


def test_what_nobody_provides_is_named_with_the_step() -> None:
    offers = [offer("b"), offer("a", "gpu")]
    assert choose(plan().steps, offers) == Unplaced("start", ("eu", "gpu"), ("a", "b"))


def test_the_choice_is_recorded_and_every_decision_follows_from_it() -> None:
    events = routing.start("x1", Request("needy"), "", plan(), NOW, pools={"start": "b"})
    evaluated = next(event for event in events if isinstance(event, ev.RequestEvaluated))
    scheduled = next(event for event in events if isinstance(event, ev.StepScheduled))
    assert (evaluated.pools, scheduled.pool) == ({"start": "b"}, "b")
    record = Record("x1", "router", 1, stamp(NOW), tuple(events))
    assert verify("x1", [(1, record)], lambda _digest: plan()) == []


def test_a_request_that_no_pool_fits_is_refused() -> None:
    events = routing.start("x1", Request("needy"), "", plan(), NOW, pools="no pool provides gpu")
    assert [type(event) for event in events] == [ev.ExecutionRequested, ev.RequestEvaluated, ev.PlaybookProcessed]
    last = events[-1]
    assert isinstance(last, ev.PlaybookProcessed)
    assert last.error == {"kind": "pool", "message": "no pool provides gpu"}
