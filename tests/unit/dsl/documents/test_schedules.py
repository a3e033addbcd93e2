"""`kind: Schedule` and `kind: Trigger`: what they say, and every mistake with its place and its fix."""

import pytest

from shared.dsl.documents.compile import compile_document, kind_in
from shared.dsl.documents.schedules import MAX_EVERY_S, MAX_MADE_UP, Schedule
from shared.dsl.documents.triggers import MAX_CONCURRENT, WHOLE, Trigger
from tests.support.clock import at

SCHEDULE = """\
apiVersion: noetl.io/v2
kind: Schedule
metadata: {name: nightly, description: the nightly load}
spec:
  playbook: {path: load/all, version: "2", payload: {day: "{{ schedule.local[:10] }}"}}
"""
TRIGGER = """\
apiVersion: noetl.io/v2
kind: Trigger
metadata: {name: orders}
spec:
  playbook: {path: shop/order}
"""
CRON = "  cron: '0 2 * * *'\n"
SUBJECT = "  subject: orders.new\n"


def told(source: str, kind: str) -> list[tuple[str, str, str]]:
    compiled = compile_document(source, kind=kind, file="x.yaml")
    assert (compiled.document is None) == any(each.severity == "error" for each in compiled.diagnostics)
    return [(each.code, f"{each.line}:{each.column}", each.fix) for each in compiled.diagnostics]


def test_a_schedule_says_all_of_it() -> None:
    more = """\
  cron: '30 2 * * 1-5'
  timezone: Europe/Berlin
  dst: {missing: skip, repeated: twice}
  catch_up: {mode: all, most: 7}
  overlap: skip
  start: '2026-01-01T00:00:00'
  end: '2026-12-31T00:00:00Z'
  paused: true
"""
    found = compile_document(SCHEDULE + more, kind="Schedule").document
    assert isinstance(found, Schedule)
    assert (found.name, found.playbook.path, found.playbook.version) == ("nightly", "load/all", "2")
    assert (found.cron, found.timezone) == ("30 2 * * 1-5", "Europe/Berlin")
    assert (found.missing, found.repeated) == ("skip", "twice")
    assert (found.catch_up, found.made_up, found.overlap, found.paused) == ("all", 7, "skip", True)
    assert (found.start, found.end) == (at("2026-01-01T00:00+01:00"), at("2026-12-31T00:00Z"))


def test_what_a_schedule_leaves_out_has_a_default() -> None:
    found = compile_document(SCHEDULE + "  every: 1h30m\n", kind="Schedule").document
    assert isinstance(found, Schedule)
    assert (found.every, found.timezone, found.catch_up, found.overlap) == (5400, "UTC", "none", "allow")
    assert (found.missing, found.repeated, found.paused) == ("shift", "once", None)


def test_a_trigger_says_all_of_it() -> None:
    more = """\
  subject: orders.*.new
  stream: ORDERS
  filter: "{{ message.data.total > 10 }}"
  mapping: "{{ message.data }}"
  dedupe: "{{ message.data.id }}-{{ message.subject }}"
  concurrency: {max: 5, when_full: skip}
"""
    found = compile_document(TRIGGER + more, kind="Trigger").document
    assert isinstance(found, Trigger)
    assert (found.subject, found.stream, found.max_running, found.when_full) == ("orders.*.new", "ORDERS", 5, "skip")
    plain = compile_document(TRIGGER + SUBJECT, kind="Trigger").document
    assert isinstance(plain, Trigger)
    assert (plain.stream, plain.filter, plain.mapping, plain.dedupe, plain.max_running) == ("", True, WHOLE, "", 0)


@pytest.mark.parametrize(("more", "code", "place", "fix"), [
    ("", "DSL202", "4:1", "write one of the two"),
    (CRON + "  every: 5m\n", "DSL204", "7:3", "write one of the two"),
    ("  cron: '0 2 * *'\n", "DSL204", "6:9", "five fields"),
    ("  cron: '61 2 * * *'\n", "DSL204", "6:9", "five fields"),
    ("  cron: '0 0 30 2 *'\n", "DSL204", "6:9", "five fields"),
    ("  cron: '0 0 1 2 5L/2'\n", "DSL204", "6:9", "five fields"),
    ("  cron: 5\n", "DSL203", "6:9", "five fields"),
    ("  every: soon\n", "DSL203", "6:10", "write every: 30s"),
    ("  every: 500ms\n", "DSL203", "6:10", "write every: 30s"),
    (f"  every: {MAX_EVERY_S + 1}s\n", "DSL204", "6:10", f"to {MAX_EVERY_S}"),
    ("  every: 5m\n  dst: {missing: skip}\n", "DSL204", "7:3", "leave dst out"),
    (CRON + "  timezone: Europe/Berlni\n", "DSL204", "7:13", "did you mean Europe/Berlin?"),
    (CRON + "  timezone: Pacific/Auckand\n", "DSL204", "7:13", "did you mean Pacific/Auckland?"),
    (CRON + "  dst: {missing: shit}\n", "DSL204", "7:18", "did you mean shift?"),
    (CRON + "  catch_up: everything\n", "DSL204", "7:13", "one of: none, last, all"),
    (CRON + f"  catch_up: {{mode: all, most: {MAX_MADE_UP + 1}}}\n", "DSL204", "7:31", f"1 to {MAX_MADE_UP}"),
    (CRON + "  catch_up: {mode: last, most: 3}\n", "DSL204", "7:26", "leave it out"),
    (CRON + "  catch_up: all\n  overlap: cancel\n", "DSL204", "8:12", "overlap: skip to make them up one after"),
    (CRON + "  overlap: queue\n", "DSL204", "7:12", "one of: allow, skip, cancel"),
    (CRON + "  start: tomorrow\n", "DSL204", "7:10", "write start:"),
    (CRON + "  start: '9999-12-31'\n", "DSL204", "7:10", "write start:"),
    (CRON + "  end: '0001-01-01T00:00+14:00'\n", "DSL204", "7:8", "write end:"),
    (CRON + "  start: '2026-02-01'\n  end: '2026-01-01'\n", "DSL204", "8:8", "after start"),
    (CRON + "  paused: maybe\n", "DSL203", "7:11", "true or paused: false"),
    (CRON + "  time_zone: UTC\n", "DSL201", "7:3", "did you mean timezone?"),
])
def test_a_mistake_in_a_schedule_is_told_with_its_place_and_fix(more: str, code: str, place: str, fix: str) -> None:
    (found,) = told(SCHEDULE + more, "Schedule")
    assert found[:2] == (code, place)
    assert fix in found[2]


@pytest.mark.parametrize(("more", "code", "place", "fix"), [
    ("", "DSL202", "4:1", "write subject:"),
    ("  subject: noetl.events.>\n", "DSL204", "6:12", "a word of your own"),
    ("  subject: '>'\n", "DSL204", "6:12", "a word of your own"),
    ("  subject: '$JS.API.>'\n", "DSL204", "6:12", "a word of your own"),
    ("  subject: a..b\n", "DSL204", "6:12", "orders.created"),
    ("  subject: a.>.b\n", "DSL204", "6:12", "orders.created"),
    (SUBJECT + "  stream: NOETL_EVENTS_0\n", "DSL204", "7:11", "at most once"),
    (SUBJECT + "  filter: total > 10\n", "DSL602", "7:11", "write filter:"),
    (SUBJECT + '  filter: "{{ data.total > 10 }}"\n', "DSL910", "7:11", "known here: message"),
    (SUBJECT + '  filter: "{{ message.data. }}"\n', "DSL601", "7:11", "a name is missing after"),
    (SUBJECT + "  mapping: [1]\n", "DSL203", "7:12", "write mapping:"),
    (SUBJECT + '  mapping: {a: "{{ keychain.x }}"}\n', "DSL603", "7:16", "auth"),
    (SUBJECT + "  dedupe: order\n", "DSL602", "7:11", "write dedupe:"),
    (SUBJECT + "  concurrency: {when_full: queue}\n", "DSL202", "7:3", "max: 5"),
    (SUBJECT + f"  concurrency: {{max: {MAX_CONCURRENT + 1}}}\n", "DSL204", "7:22", f"1 to {MAX_CONCURRENT}"),
    (SUBJECT + "  concurrency: {max: 1, when_full: wait}\n", "DSL204", "7:36", "queue, skip"),
])
def test_a_mistake_in_a_trigger_is_told_with_its_place_and_fix(more: str, code: str, place: str, fix: str) -> None:
    (found,) = told(TRIGGER + more, "Trigger")
    assert found[:2] == (code, place)
    assert fix in found[2]


def test_the_header_is_checked() -> None:
    broken = "apiVersion: v1\nkind: Trigger\nmetadata: {}\nspecs: {}\n"
    assert [(code, place) for code, place, _ in told(broken, "Schedule")] == [
        ("DSL202", "1:1"), ("DSL206", "1:13"), ("DSL206", "2:7"), ("DSL202", "3:1"), ("DSL201", "4:1"),
    ]


def test_a_name_has_a_limit() -> None:
    (found,) = told((SCHEDULE + CRON).replace("nightly,", "n" * 65 + ","), "Schedule")
    assert found[0] == "DSL205"


def test_an_unknown_name_in_the_payload_is_told() -> None:
    (found,) = told((SCHEDULE + CRON).replace("schedule.local", "shedule.local"), "Schedule")
    assert found == ("DSL910", "5:59", "known here: schedule")


@pytest.mark.parametrize(("source", "kind"), [
    (SCHEDULE, "Schedule"), (TRIGGER, "Trigger"), ("kind: Playbook\nmetadata: {name: Trigger}\n", ""),
    ("- Schedule\n", ""), ("kind: [Schedule]\n", ""), ("", ""),
])
def test_the_kind_of_a_document_is_known(source: str, kind: str) -> None:
    assert kind_in(source) == kind_in(source.encode()) == kind
