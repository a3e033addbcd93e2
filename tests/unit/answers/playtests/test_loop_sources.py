"""Local loops and loops over claimed rows in cases that run on mocks."""

from tests.unit.answers.playtests.lab import one

QUEUE = """
metadata: {name: queue, path: queue}
workflow:
  - step: start
    loop:
      cursor: {kind: postgres, auth: db, claim: "SELECT id FROM jobs LIMIT {{ claim.size }}", frame: 2}
      iterator: row
      spec: {mode: parallel}
    tool: {kind: http, url: "http://jobs/{{ row.id }}"}
"""
CLAIMED = """
cases:
  - name: three rows in two frames
    mocks:
      - {step: start, task: claim, when: "{{ claim.frame == 0 and call.command }}", result: [{id: 1}, {id: 2}]}
      - {step: start, task: claim, when: "{{ claim.frame == 1 }}", result: [{id: 3}]}
      - {step: start, task: claim, result: []}
      - {step: start, task: start_task, result: {v: "{{ row.id }}"}}
    expect:
      steps: {start: {iterations: 3, failed: 0}}
      calls: {start.claim: 3, start.start_task: 3}
"""
LOCAL = """
metadata: {name: local, path: local}
workload: {items: [1, 2, 3, 4]}
workflow:
  - step: start
    loop:
      in: "{{ workload.items }}"
      iterator: item
      spec: {policy: {exec: local}, stop_when: "{{ last.data.v == 3 }}"}
    tool:
      kind: http
      url: "http://jobs/{{ iter.item }}"
      spec:
        policy:
          rules:
            - {when: "{{ outcome.error }}", then: {do: retry, attempts: 2, delay: 60}}
            - {else: {then: {do: continue}}}
"""


def test_the_frames_of_a_cursor_are_mocked_one_by_one() -> None:
    case = one(QUEUE, CLAIMED)
    assert (case.passed, case.failures) == (True, [])


def test_a_claim_that_is_not_mocked_is_told() -> None:
    case = one(QUEUE, "cases: [{name: nobody, expect: {status: completed}}]")
    assert not case.passed
    assert any("claim" in str(failure) for failure in case.failures)


def test_a_local_loop_stops_by_itself_and_pauses_on_its_worker() -> None:
    case = one(LOCAL, """
    cases:
      - name: three of four
        mocks:
          - {step: start, iteration: 1, attempt: 1, error: {status: 503}}
          - {step: start, result: {v: "{{ iter.item }}"}}
        expect:
          steps: {start: {failed: 0, status: done}}
          calls: {start: 4}
          that: ["{{ result | length == 3 }}"]
    """)
    assert (case.passed, case.failures) == (True, [])
