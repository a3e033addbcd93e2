"""Lowering: canonical input comes back as it is, and what is lowered is canonical."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from shared.dsl.compile import compile_playbook
from shared.dsl.lower.lower import lower
from shared.dsl.model.plan import Step, Task
from shared.dsl.source.load import load
from shared.tools import registry
from tests.support.examples import PLAYBOOKS

FORMAL = """
apiVersion: noetl.io/v2
kind: Playbook
name: formal
workbook: [{name: w, tool: {kind: noop, args: {x: "{{ a }}"}}, sink: {tool: noop}}]
workflow:
  - step: start
    args: {a: "{{ vars.b }}"}
    tool: {kind: workbook, name: w, args: {a: 1}}
    vars: {b: "{{ result.x }}"}
    sink: {tool: {kind: noop}, args: {n: "{{ response }}"}, when: "{{ result.x }}"}
    case:
      - when: "{{ event.name == 'call.done' and response.x == 1 }}"
        then: {sink: {tool: noop}, set: {ctx.k: 1}, next: [two, end]}
      - {when: "{{ error.status == 500 }}", then: {retry: {max_attempts: 2}}}
    retry:
      - {when: "{{ response.more }}", then: {next_call: {args: {p: 2}}, collect: {into: all}, sink: {tool: noop}}}
    next: end
  - step: two
    loop: {in: [1], iterator: n, mode: async}
    tool: [{choose: [{when: "{{ n }}", then: [{kind: noop}]}]}, {until: {when: "{{ true }}", do: [{kind: noop}]}}]
    retry: {max_attempts: 2, stop_when: "{{ success }}"}
    next: [{step: end, args: {z: 1}}]
  - step: end
"""
TODAY = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: today}
tracing: {enabled: true}
spec: {state: ready}
keychain: [{name: k, type: bearer}]
executor:
  profile: auto
  version: noetl-runtime/1
  requires: {tools: [noop], features: [loop]}
  spec: {entry_step: a/b, no_next_is_error: true, policy: {defaults: {timeout_s: 5}}}
workload: {most: 2}
workflow:
  - step: a/b
    tool: [{one: {kind: noop, timeout: 5, retry: {max_attempts: 2, retry_on: [timeout], backoff: 1}}}]
    result: {store: {kind: gcs}, output_select: [a.b], inline_max_bytes: 500}
    next:
      spec: {mode: inclusive, on_no_match: fail}
      arcs: [{step: c, cond: exit_code == 1}, {step: a/b, when: "{{ spec.state }}"}]
  - step: c
    loop: {in: [1], iterator: n, spec: {mode: parallel, max_in_flight: "{{ workload.most }}", policy: {exec: local}}}
    tool: {kind: noop, assert: {expects: [a], returns: [b]}, output_select: {strategy: size_threshold, threshold_kb: 9}}
    case: [{when: "{{ error.status == 5 }}", then: {call: {step: end, args: {z: 1}}, next: a/b}}]
    next: [end]
  - step: end
"""


@pytest.mark.parametrize("file", PLAYBOOKS, ids=lambda file: file.stem)
def test_a_canonical_document_comes_back_as_it_is(file: Path) -> None:
    document, _ = load(file.read_bytes())
    assert document is not None
    if compile_playbook(file.read_bytes(), kinds=registry.specs(), strict=True).plan is not None:
        assert lower(document, registry.specs()).document is document


@pytest.mark.parametrize("rules", [
    '{when: "{{ result.n == 9 }}", then: {next: end}}',
    '{when: "{{ result.n == 8 }}", then: {set: {x: 1}}}, {when: "{{ result.n > 7 }}", then: {next: end}}',
])
def test_what_lowering_made_of_a_case_is_lowered_to_itself(rules: str) -> None:
    """Its arcs ask already that there is no error, also where their author asked for data alone."""
    document, _ = load("apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: again}\nworkflow:\n"
                       f"- {{step: start, tool: {{kind: noop}}, case: [{rules}], next: other}}\n"
                       "- {step: other, tool: {kind: noop}}\n- {step: end}\n")
    assert document is not None
    once = lower(document, registry.specs()).document
    assert once is not document
    assert lower(once, registry.specs()).document.data == once.data


def _untitled(step: Step) -> list[Task]:
    """Without what generated tasks stand for."""
    return [replace(task, title="", role="", again=()) for task in step.tasks]


@pytest.mark.parametrize("source", [FORMAL, TODAY], ids=["formal", "today"])
def test_a_lowered_document_is_canonical(source: str) -> None:
    document, _ = load(source)
    assert document is not None
    lowered = lower(document, registry.specs())
    strict = compile_playbook(json.dumps(lowered.document.data), kinds=registry.specs(), strict=True)
    loose = compile_playbook(source, kinds=registry.specs())
    assert [str(each) for each in loose.diagnostics if each.severity == "error"] == []
    assert strict.plan is not None
    assert loose.plan is not None
    assert [_untitled(step) for step in strict.plan.steps.values()] == [
        _untitled(step) for step in loose.plan.steps.values()]
