"""Whatever stands in a schedule, a trigger or a pool: it is taken or refused, and what is taken can be worked with."""

from itertools import islice
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.dsl.documents.compile import compile_document, compile_pool
from shared.dsl.documents.pools import MAX_DRAIN_S, MAX_SLOTS, MAX_WORKERS, Pool
from shared.dsl.documents.schedules import Schedule
from shared.dsl.model.diagnostic_codes import CODES
from shared.engine.automation import calendar
from shared.engine.automation import schedules as automation_schedules
from tests.support.inputs.trees import replaced

NOW = 1_790_000_000
SCHEDULE = yaml.safe_load("""
apiVersion: noetl.io/v2
kind: Schedule
metadata: {name: s, labels: {a: b}}
spec:
  playbook: {path: p, version: "1", payload: {day: "{{ schedule.local }}", more: [1, "{{ schedule.unix }}"]}}
  cron: '0 2 * * *'
  timezone: Europe/Berlin
  dst: {missing: skip, repeated: twice}
  catch_up: {mode: all, most: 3}
  overlap: skip
  start: '2026-01-01'
  end: '2027-01-01'
  paused: false
""")
TRIGGER = yaml.safe_load("""
apiVersion: noetl.io/v2
kind: Trigger
metadata: {name: t}
spec:
  subject: a.b
  stream: S
  playbook: {path: p}
  filter: "{{ message.data.x }}"
  mapping: {a: "{{ message.data }}"}
  dedupe: "{{ message.data }}"
  concurrency: {max: 3, when_full: skip}
""")
POOL = yaml.safe_load("""
apiVersion: noetl.io/v2
kind: Pool
metadata: {name: p, labels: {a: b}}
spec: {backend: process, workers: 2, slots: 8, provides: [gpu, eu], tools_disabled: [shell], drain_s: 5}
""")
words = st.sampled_from([
    "backend", "external", "process", "workers", "provides", "shell",
    "cron", "every", "* * * * *", "0 0 29 2 MON#5", "L W * * 5L", "1-5/2 * * JAN MON", "59 23 31 12 7", "1h", "0.5s",
    "400d", "UTC", "Asia/Tokyo", "localtime", "../x", "all", "last", "cancel", "allow", "2199-12-31",
    "1971-01-01T00:00Z", "2026-03-29T02:30", "{{ message.data }}", "{{ schedule.time }}", "{{ schedule", "{{ x }}",
    "a.>", "*", "noetl.x", "",
])
scalars = st.one_of(words, st.text(max_size=12), st.integers(), st.floats(), st.booleans(), st.none())
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_schedule_with_anything_in_it(data: st.DataObject) -> None:
    tree = SCHEDULE
    for _ in range(data.draw(st.integers(1, 3))):
        tree = replaced(tree, data, values, words)
    found = check(tree, "Schedule")
    if isinstance(found, Schedule):
        list(islice(calendar.upcoming(found, NOW), 5))
        automation_schedules.decide(found, automation_schedules.State(), NOW - 10_000_000, float(NOW), frozenset())


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_trigger_with_anything_in_it(data: st.DataObject) -> None:
    check(replaced(TRIGGER, data, values, words), "Trigger")


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_pool_with_anything_in_it(data: st.DataObject) -> None:
    found = check(replaced(POOL, data, values, words), "Pool")
    if isinstance(found, Pool):
        assert found.name
        assert 1 <= found.slots <= MAX_SLOTS
        assert 0 <= (found.workers or 0) <= MAX_WORKERS
        assert 0 < found.drain_s <= MAX_DRAIN_S
        assert found.backend == "process" or found.workers is None


def check(tree: Any, kind: str) -> Any:
    source = yaml.safe_dump(tree)
    compiled = compile_pool(source, kinds=("shell",)) if kind == "Pool" else compile_document(source, kind=kind)
    assert (compiled.document is None) == any(each.severity == "error" for each in compiled.diagnostics)
    assert all(each.code in CODES and each.line and each.column and each.fix for each in compiled.diagnostics)
    return compiled.document
