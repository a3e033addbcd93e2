"""What a condition's text says before anything runs."""

import pytest

from shared.dsl.templates.conditions import contradict, fires, truth


@pytest.mark.parametrize(("when", "done", "failed"), [
    (None, True, False),
    (True, True, False),
    (False, False, False),
    ("{{ true }}", True, False),
    ("{{ event.name == 'step.done' }}", True, False),
    ("{{ 'step.failed' == event.name }}", False, True),
    ("{{ event.name == 'call.error' }}", False, True),
    ("{{ event.name in ['step.done', 'step.failed'] }}", True, True),
    ("{{ event.name not in ('step.failed',) }}", True, False),
    ("{{ event.name == 'step.done' and ctx.ok }}", None, False),
    ("{{ event.name == 'step.done' or ctx.ok }}", True, None),
    ("{{ not event.error }}", True, False),
    ("{{ not ctx.ok }}", None, False),
    ("{{ not ctx.ok or event.error }}", None, True),
    ("{{ event.name != ctx.name }}", None, None),
    ("{% if ctx.ok %}true{% endif %}", None, False),
    ("{% if event.error %}true{% endif %}", None, None),
])
def test_an_arc_takes_an_event_surely_never_or_perhaps(when: object, done: bool | None, failed: bool | None) -> None:
    assert fires(when, "step.done") is done
    assert fires(when, "step.failed") is failed


def test_the_end_of_a_loop_is_also_the_end_of_a_step() -> None:
    assert fires("{{ event.name == 'step.done' }}", "loop.done") is True
    assert fires("{{ event.name == 'loop.done' }}", "step.done") is False


def test_the_status_of_an_outcome_can_be_known() -> None:
    known = {("outcome", "status"): frozenset({"error"})}
    assert truth("{{ outcome.status == 'error' }}", known) is True
    assert truth("{{ outcome.status == 'error' and outcome.http.status == 404 }}", known) is None


@pytest.mark.parametrize(("one", "other"), [
    ("{{ ctx.a }}", "{{ not ctx.a }}"),
    ("{{ ctx.a == 1 }}", "{{ ctx.a == 2 }}"),
    ("{{ ctx.a == 1 and ctx.b }}", "{{ ctx.a != 1 }}"),
    ("{{ ctx.a < 5 }}", "{{ ctx.a >= 5 }}"),
    ("{{ ctx.a in [1] }}", "{{ ctx.a not in [1] }}"),
    (False, True),
])
def test_conditions_that_exclude_each_other(one: object, other: object) -> None:
    assert contradict(one, other)
    assert contradict(other, one)


@pytest.mark.parametrize(("one", "other"), [
    ("{{ ctx.a }}", "{{ not ctx.b }}"),
    ("{{ ctx.a < 5 }}", "{{ ctx.a < 6 }}"),
    ("{{ ctx.a == 1 }}", "{{ ctx.b == 2 }}"),
    ("{{ ctx.a == 1 or ctx.b }}", "{{ ctx.a == 2 }}"),
    (None, "{{ ctx.a }}"),
])
def test_conditions_that_can_both_hold(one: object, other: object) -> None:
    assert not contradict(one, other)
