"""Coverage: which arcs, rules, steps and compensations a test reaches, with their lines."""

from tests.unit.answers.playtests.lab import SHOP, book, coverage


def reached(source: str, test: str, path: str) -> dict[str, tuple[int, int]]:
    return {each.what: (each.line, each.times) for each in coverage(source, test)[path]}


PAID = "cases: [{name: paid, mocks: [{step: start, result: {price: 1}}, {step: pay, result: []}]}]"


def test_what_was_taken_is_told_apart_from_what_never_was() -> None:
    found = reached(SHOP, PAID, "shop")
    times = {what: times for what, (_, times) in found.items()}
    assert times == {
        "step start": 1,
        "rule of start.price, retry when outcome.status == 'error' and outcome.http.status == 503": 0,
        "rule of start.price, fail when outcome.status == 'error'": 0,
        "rule of start.price, continue (else)": 1,
        "arc start → pay when event.name == 'step.done' and ctx.price <= workload.limit": 1,
        "arc start → refuse when event.name == 'step.done'": 0,
        "step pay": 1,
        "step refuse": 0,
    }


def test_every_part_has_the_line_it_is_written_on() -> None:
    found = reached(SHOP, PAID, "shop")
    lines = ("apiVersion\nkind\n" + SHOP).splitlines()
    at = {what: lines[line - 1].strip() for what, (line, _) in found.items()}
    assert at["step refuse"] == "- step: refuse"
    assert at["arc start → refuse when event.name == 'step.done'"].startswith("- {step: refuse, when:")
    assert at["rule of start.price, fail when outcome.status == 'error'"].startswith("- when: \"{{ outcome.status")
    assert at["rule of start.price, continue (else)"].startswith("- else:")


def test_retries_and_what_follows_when_they_are_used_up_are_rules_of_their_own() -> None:
    test = "cases: [{name: busy, mocks: [{step: start, error: {status: 503}}], expect: {status: failed}}]"
    times = {what: times for what, (_, times) in reached(SHOP, test, "shop").items()}
    assert times["rule of start.price, retry when outcome.status == 'error' and outcome.http.status == 503"] == 2
    assert times["rule of start.price, fail when outcome.status == 'error'"] == 1


TWIN = """
metadata: {name: twin, path: twin}
workload: {n: 0}
workflow:
  - step: start
    next:
      arcs:
        - {step: work, when: "{{ workload.n == 1 }}"}
        - {step: work, when: "{{ workload.n == 2 }}"}
        - {step: work, args: {n: 3}}
  - step: work
    spec:
      policy:
        compensate: undo
        admit:
          rules:
            - {when: "{{ workload.n == 2 }}", then: {allow: false}}
            - {when: "{{ workload.n == 5 }}", then: {allow: true}}
            - else: {then: {allow: true}}
    tool: {kind: noop}
    next: {arcs: [{step: fail, when: "{{ workload.n == 1 }}"}]}
  - step: fail
    tool: {kind: http, url: http://x}
  - step: undo
    tool: {kind: noop}
"""


def test_arcs_to_the_same_step_are_told_apart() -> None:
    times = {what: times for what, (_, times) in reached(TWIN, "cases: [{name: a, payload: {n: 3}}]", "twin").items()}
    assert times["arc start → work when workload.n == 1"] == 0
    assert times["arc start → work when workload.n == 2"] == 0
    assert times["arc start → work"] == 1


def test_admission_rules_that_allow_or_refuse_are_told() -> None:
    test = "cases: [{name: a, payload: {n: 2}, expect: {path: [start]}}, {name: b, payload: {n: 3}}]"
    times = {what: times for what, (_, times) in reached(TWIN, test, "twin").items()}
    assert times["admission of work, refuse when workload.n == 2"] == 1
    assert times["admission of work, allow when workload.n == 5"] == 0
    assert times["admission of work, allow (else)"] == 1


def test_a_compensation_is_reached_when_it_undoes_something() -> None:
    undone = "cases: [{name: a, payload: {n: 1}, mocks: [{step: fail, error: x}], expect: {status: failed}}]"
    found = reached(TWIN, undone, "twin")
    assert found["compensation of work by undo"][1] == 1
    assert found["step undo"][1] == 1
    assert reached(TWIN, "cases: [{name: a, payload: {n: 3}}]", "twin")["compensation of work by undo"][1] == 0


def test_called_playbooks_are_covered_too() -> None:
    caller = """
    metadata: {name: caller, path: caller}
    workflow:
      - step: start
        tool: {kind: playbook, path: shop}
    """
    found = coverage(caller, """
    with: [shop.yaml]
    cases:
      - name: a
        mocks: [{playbook: shop, step: start, result: {price: 1}}, {playbook: shop, step: pay, result: []}]
    """, book(SHOP, "shop.yaml"))
    steps = {each.what for each in found["shop"] if each.part.kind == "step" and each.times}
    assert steps == {"step start", "step pay"}


def test_rules_of_a_step_in_a_loop_and_of_the_formal_dialect_are_found() -> None:
    formal = """
    metadata: {name: formal, path: formal}
    workflow:
      - step: start
        loop: {in: [1, 2], iterator: x}
        tool: {kind: http, url: http://x, retry: {max_attempts: 2}}
        case:
          - when: "{{ event.name == 'loop.done' }}"
            then: {next: [{step: end}]}
      - step: end
    """
    found = coverage(formal, "cases: [{name: a, mocks: [{step: start, task: start_task, result: 1}]}]")["formal"]
    assert [each for each in found if each.part.kind == "rule" and each.times]
    assert all(1 <= each.line <= 12 for each in found)
