"""Playbooks that look like a mistake and are none."""

import pytest

from shared.dsl.compile import compile_playbook
from shared.dsl.templates.analysis import facts
from shared.dsl.templates.names import Read
from tests.support.playbooks import head
from tests.unit.dsl.tool_kinds import KINDS

HEAD = head("fine") + "workload: {x: 1, items: [1, 2]}\nworkflow:\n"


def told(workflow: str) -> list[str]:
    return [str(each) for each in compile_playbook(HEAD + workflow, kinds=KINDS).diagnostics]


def one(task: str, more: str = "") -> list[str]:
    return told(f"  - step: start\n{more}    tool:\n      {task}\n")


@pytest.mark.parametrize("template", [
    "{{ missing | default(1) }}",
    "{{ missing.deep.down | d('x') }}",
    "{{ 1 if missing is defined else 2 }}",
    "{% if missing is defined %}{{ missing }}{% endif %}",
    "{% set mine = x %}{{ mine }}",
    "{% for each in items %}{{ each }}{{ loop.index }}{% endfor %}",
    "{{ range(3) }}{{ dict(a=1) }}",
    "{{ workload.get('missing') }}{{ workload | length }}{{ workload.items }}",
    "{{ workload[x] }}",
    "{{ ctx.missing | default(none) }}",
    "{{ iter.index | default(0) }}{{ _prev }}{{ _task }}{{ _attempt }}",
    "{{ execution_id }}{{ job.uuid }}{{ args | length }}{{ start }}",
])
def test_a_name_that_is_there_or_may_be_missing(template: str) -> None:
    assert one(f'{{kind: noop, args: {{v: "{template}"}}}}') == []


def test_a_read_knows_its_line_and_its_namespace() -> None:
    assert facts("a\n{{ b }}\n{{ ctx.c }}{{ workload['d'] }}").reads == (
        Read("b", 1), Read("ctx", 2), Read("workload", 2), Read("c", 2, "ctx"), Read("d", 2, "workload"))


@pytest.mark.parametrize("command", [
    "SELECT * FROM t WHERE a IS DISTINCT FROM {{ x }}",
    "SELECT extract(epoch FROM {{ x }}::timestamp)",
    "SELECT * FROM {{ x | identifier }} WHERE b = '{{ x }}'",
    "SELECT $${{ x }}$$ -- not {{ x }}5",
    "INSERT INTO t (a) VALUES ({{ x }}) ON CONFLICT DO UPDATE SET a = {{ x }}",
    "SELECT 1{% if x %}, {{ x }}{% endif %}",
])
def test_sql_that_can_be_bound(command: str) -> None:
    assert one(f'{{kind: postgres, command: "{command}"}}') == []


RULE = 'kind: noop\n      spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {k: %s}}}}]}}'


@pytest.mark.parametrize(("loop", "value"), [
    ("{in: '{{ items }}', iterator: i, spec: {mode: parallel}}", "{$add: 1}"),
    ("{in: '{{ items }}', iterator: i}", "1"),
    ("{in: [1], iterator: i, spec: {mode: parallel}}", "1"),
])
def test_writes_that_cannot_clash(loop: str, value: str) -> None:
    assert one(RULE % value, f"    loop: {loop}\n") == []


JUMP = ("{{name: {}, kind: noop, spec: {{policy: {{rules: "
        "[{{when: '{{{{ x }}}}', then: {{do: jump, to: {}}}}}, {}]}}}}}}")
ELSE = "{else: {then: {do: continue}}}"


def test_a_task_that_is_jumped_over_may_run_on() -> None:
    tasks = [JUMP.format("a", "c", ELSE), "{name: b, kind: noop}", "{name: c, kind: noop}"]
    assert one("[" + ", ".join(tasks) + "]") == []


def test_a_jump_back_with_a_way_out() -> None:
    tasks = ["{name: a, kind: http, url: 'http://localhost/'}", JUMP.format("b", "a", ELSE)]
    assert one("[" + ", ".join(tasks) + "]") == []


@pytest.mark.parametrize("when", ["\"{{ outcome.status == 'error' }}\"", "true"])
def test_rules_that_take_every_error_need_no_else(when: str) -> None:
    rule = f"{{when: {when}, then: {{do: fail}}}}"
    assert one(f"{{kind: http, url: 'http://localhost/', spec: {{policy: {{rules: [{rule}]}}}}}}") == []


def test_an_arc_for_failures_after_one_without_when() -> None:
    assert told("""\
  - step: start
    tool: {kind: noop}
    next:
      arcs:
        - {step: end}
        - {step: end, when: "{{ event.name == 'step.failed' }}"}
  - step: end
""") == []


def test_a_secret_that_is_used_and_not_given_back() -> None:
    assert told("""\
  - step: start
    tool:
      - {name: q, kind: postgres, command: "SELECT a FROM t WHERE token = {{ keychain.api.token }}"}
      - {name: i, kind: postgres, command: "INSERT INTO t (a) VALUES ({{ keychain.api.token }})"}
      - {name: p, kind: python, args: {token: "{{ keychain.api.token }}"}, code: "result = len(token)"}
""") == []
