"""docs/templates.md says which names a template sees where: what it really sees in a rehearsal, and what the compiler
lets it read without a warning, are these and no others."""

from collections.abc import Mapping
from typing import Any

import pytest

from shared.answers.rehearsal.rehearse import rehearse
from shared.answers.rehearsal.setting import Opening
from shared.answers.rehearsal.types import Answered, Need
from shared.dsl.compile import compile_playbook
from shared.dsl.documents.compile import compile_document
from shared.dsl.documents.schedules import Schedule
from shared.dsl.documents.triggers import Trigger
from shared.dsl.templates.limits import Context
from shared.engine.automation import schedules, triggers
from shared.engine.automation.triggers import Arrived
from shared.engine.pipeline.decide import outcome_view
from shared.events.outcome import Outcome, failed, ok
from shared.tools import registry
from shared.tools.testing.effectless import natural
from tests.support.documents import tables

PAGE, HEADING = "templates.md", "Names by place"
STEPS = {"workload", "ctx", "args", "execution_id", "job"}
BEFORE_STEPS = {"workload", "execution_id", "job"}
ASKED = ("_now", "event", "compensates")  # what is only there for who asks for it
# Keys, iterators, steps and tasks of the playbook.
DATA = {"w", "n", "c", "given", "x", "y", "z", "row", "index", "parent", "start", "first", "around", "paid"}

# Where each place of the page is in the playbook below.
PLACES = {
    "`workload` of the playbook, which has no `ctx`, `args` or steps yet": "workload",
    "`limits.key` of the executor, which has no `ctx`, `args` or steps yet": "executor_limit",
    "rules of `admit`": "admit",
    "`loop.in` and `max_in_flight` of a step": "loop_in",
    "`loop.in` of a loop within a loop": "inner_in",
    "`limits.key` of a step": "limit",
    "`limits.key` of a step with a loop": "loop_limit",
    "`stop_when` of a loop": "stop_when",
    "`cursor.claim` of a loop": "claim",
    "keys of a task": "keys",
    "keys of a task in a step with a loop": "loop_keys",
    "`loop.in` of a task": "task_in",
    "rules of a task": "rules",
    "arcs": "arc",
    "`set_ctx` of a loop": "loop_set",
    "`args` of `compensate`": "undo_args",
    "keys of a task in a step that compensates": "undo_keys",
    "`payload` of a schedule, which sees nothing else": "schedule",
    "`filter`, `mapping`, `dedupe` of a trigger, which see nothing else": "trigger",
}
ALONE = {"schedule", "trigger"}

BOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: probe, path: probe}
keychain: [{name: db, kind: postgres}]
executor: {spec: {policy: {limits: {key: "KEY(executor_limit)", max: 5}}}}
workload: {n: 1, w: "READ(workload)"}
workflow:
  - step: start
    spec: {policy: {limits: {key: "KEY(limit)", max: 5}}}
    tool:
      - {name: first, kind: http, url: "http://example.com/SECRET(keys)"}
      - name: second
        kind: http
        url: http://example.com
        spec: {policy: {rules: [{when: "READ(rules)", then: {do: continue, set_ctx: {c: 1}}}]}}
    next: {arcs: [{step: tasks, when: "READ(arc)"}]}
  - step: tasks
    tool: {kind: noop, args: {}, loop: {in: "{{ [READ_(task_in)] }}", iterator: y}}
    next: {arcs: [{step: around, args: {given: 1}}]}
  - step: around
    spec: {policy: {admit: {rules: [{when: "READ(admit)", then: {allow: true}}]},
                    limits: {key: "KEY(loop_limit)", max: 5}}}
    loop:
      in: "{{ [READ_(loop_in)] }}"
      iterator: x
      loop: {in: "{{ [READ_(inner_in), 2] }}", iterator: z}
      spec:
        mode: parallel
        max_in_flight: "{{ 1 if READ_(loop_in) else 2 }}"
        stop_when: "{{ not (READ_(stop_when)) }}"
      set_ctx: {c: "READ(loop_set)"}
    tool: {name: one, kind: http, url: "http://example.com/SECRET(loop_keys)"}
    next: {arcs: [{step: rows}]}
  - step: rows
    loop:
      cursor: {kind: postgres, auth: db, claim: "SELECT SECRET(claim) RETURNING 1"}
      iterator: row
    tool: {kind: noop}
    next: {arcs: [{step: paid}]}
  - step: paid
    spec: {policy: {compensate: {step: undo, args: {given: "READ(undo_args)"}}}}
    tool: {kind: noop}
    next: {arcs: [{step: fails}]}
  - step: fails
    tool: {kind: http, url: http://example.com/fails}
  - step: undo
    tool: {kind: http, url: "http://example.com/SECRET(undo_keys)"}
"""
SCHEDULE = """
apiVersion: noetl.io/v2
kind: Schedule
metadata: {name: probe}
spec: {playbook: {path: probe, payload: {x: "READ(schedule)"}}, every: 1h}
"""
TRIGGER = """
apiVersion: noetl.io/v2
kind: Trigger
metadata: {name: probe}
spec:
  subject: orders.new
  playbook: {path: probe}
  filter: "READ(trigger)"
  mapping: {x: "READ(trigger)"}
  dedupe: "READ(trigger)"
"""


def documented() -> dict[str, set[str]]:
    """Where → all the names it sees."""
    found: dict[str, set[str]] = {}
    for place, names in tables.rows(PAGE, HEADING, "place"):
        where = PLACES[place]
        early = where in ("workload", "executor_limit")
        always = set() if where in ALONE else BEFORE_STEPS if early else STEPS
        found[where] = always | set(tables.names(names))
    return found


def filled(text: str, expression: str) -> str:
    """The text with the expression at every place; `WHERE` in it is the place."""
    for where in PLACES.values():
        at = expression.replace("WHERE", where)
        text = text.replace(f"READ_({where})", at).replace(f"READ({where})", f"{{{{ {at} }}}}")
        text = text.replace(f"KEY({where})", f"{{{{ ({at}) | string }}}}")
        text = text.replace(f"SECRET({where})", f"{{{{ keychain.db.x and {at} }}}}")
    return text


Scopes = dict[str, list[Mapping[str, Any]]]


@pytest.fixture(scope="module")
def seen() -> Scopes:
    """Where → all that its templates had before them, whenever one asks for `here_<where>`."""
    found: Scopes = {}
    usual = Context.resolve_or_missing

    def looking(self: Context, name: str) -> Any:
        if name.startswith("here_"):
            found.setdefault(name.removeprefix("here_"), []).append(dict(self.scope))
        return usual(self, name)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Context, "resolve_or_missing", looking)
        rehearsed()
    return found


def answer(need: Need) -> Answered:
    if need.frame >= 0:
        return ok({"rows": [], "row_count": 0, "columns": ["a"]}, shape="sql")
    if need.config.get("url") == "http://example.com/fails":
        return failed("http", "refused")
    return natural(need) or ok({"status_code": 200, "headers": {}, "data": 1}, shape="http")


def rehearsed() -> None:
    asked = [f"({each} is undefined or true)" for each in ASKED]
    source = filled(BOOK, " and ".join(["here_WHERE is undefined", *asked]))
    plan = compile_playbook(source, kinds=registry.specs()).plan
    assert plan is not None
    ran = rehearse(plan, answer, registry.specs(), Opening(payload={"n": 2}))
    assert (ran.status, (ran.state.error or {}).get("step")) == ("failed", "fails"), ran.reason
    planned = compile_document(filled(SCHEDULE, "here_WHERE is undefined"), kind="Schedule").document
    assert isinstance(planned, Schedule)
    schedules.request(planned, 0)
    listening = compile_document(filled(TRIGGER, "here_WHERE is undefined"), kind="Trigger").document
    assert isinstance(listening, Trigger)
    triggers.react(listening, Arrived("orders.new", b"{}", {}, ("S", 1, 1)))


def test_every_place_sees_the_names_of_the_page_and_no_others(seen: Scopes) -> None:
    assert {where: set().union(*found) - DATA - bare(where) for where, found in seen.items()} == documented()


def bare(where: str) -> set[str]:
    """`iter.count` by its bare name; only `stop_when` has a `count` of its own."""
    return set() if where == "stop_when" else {"count"}


def automation(schedule: str, trigger: str) -> None:
    planned = compile_document(schedule, kind="Schedule").document
    assert isinstance(planned, Schedule)
    schedules.request(planned, 0)
    listening = compile_document(trigger, kind="Trigger").document
    assert isinstance(listening, Trigger)
    triggers.react(listening, Arrived("orders.new", b"{}", {}, ("S", 1, 1)))


def fields(heading: str, name: str) -> set[str]:
    """Those of the name that the section mentions, as `name.field`."""
    found = [each for row in tables.rows(PAGE, heading) for cell in row for each in tables.names(cell)]
    return {each.removeprefix(f"{name}.") for each in found if each.startswith(f"{name}.")}


def row_of(heading: str, name: str) -> set[str]:
    """What the row of a field says it has."""
    return {each for row in tables.codes(PAGE, heading) if row[0] == [name] for each in row[1]}


@pytest.mark.parametrize(("name", "where"), [
    ("job", "keys"), ("claim", "claim"), ("schedule", "schedule"), ("message", "trigger"),
])
def test_a_name_has_the_fields_of_the_page(seen: Scopes, name: str, where: str) -> None:
    assert fields(HEADING, name) == set(seen[where][0][name])


def test_iter_has_the_fields_of_the_page(seen: Scopes) -> None:
    assert fields(HEADING, "iter") == set(seen["loop_keys"][0]["iter"]) - {"z"}


def test_what_is_compensated_has_the_fields_of_the_page(seen: Scopes) -> None:
    assert fields(HEADING, "compensates") == set(seen["undo_keys"][0]["compensates"].beside)


def test_an_outcome_has_the_fields_of_the_page(seen: Scopes) -> None:
    whole = Outcome(status="ok", http={}, pg={}, py={})
    assert fields("outcome", "outcome") == set(outcome_view(whole, "e"))
    meta = set(seen["rules"][0]["outcome"]["meta"])
    assert row_of("outcome", "outcome.meta") == meta | {"queued_s", "stdout"}


@pytest.mark.parametrize("kind", [kind for kind, spec in registry.specs().items() if spec.blocks])
def test_a_block_of_an_outcome_has_the_fields_of_the_page(kind: str) -> None:
    for block, found in registry.specs()[kind].blocks.items():
        assert {kind, *found} <= row_of("outcome", f"outcome.{block}")


def test_an_event_has_the_fields_of_the_page(seen: Scopes) -> None:
    plain, loop = seen["arc"][0]["event"], seen["loop_set"][0]["event"]
    assert fields("event", "event") == set(plain) == set(loop)
    assert row_of("event", "event.payload") == set(loop["payload"]) > set(plain["payload"])


EVERY = sorted(set().union(*documented().values()))


@pytest.mark.parametrize("name", EVERY)
def test_the_compiler_knows_the_names_of_each_place(name: str) -> None:
    """It warns of a name where, and only where, the page does not have it."""
    places = [where for where in PLACES.values() if where not in ALONE and name not in bare(where)]
    known = documented()
    assert [where for where in places if not is_refused(where, name)] == [
        where for where in places if name in known[where]
    ]


def is_refused(where: str, name: str) -> bool:
    """With the name read at that place, and nothing elsewhere."""
    text = BOOK
    for place in PLACES.values():
        read = f"{name} and true" if place == where else "true"
        text = text.replace(f"READ_({place})", read)
        for call in ("READ", "KEY", "SECRET"):
            text = text.replace(f"{call}({place})", f"{{{{ {read} }}}}")
    found = compile_playbook(text, kinds=registry.specs()).diagnostics
    return any(each.code in ("DSL603", "DSL910") for each in found)
