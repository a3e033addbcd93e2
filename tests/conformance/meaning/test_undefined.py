"""What is not there, on a real stack: testing it is free, using it is an error."""

import pytest

from tests.conformance.stand.lab import Lab, playbook

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("retry", [
    "{max_attempts: 3, retry_when: \"{{ 'timeout' in error }}\"}",
    "[{when: \"{{ 'timeout' in error.message }}\", then: {max_attempts: 3}}]",
    "[{when: \"{{ this.error.retryable }}\", then: {max_attempts: 3}}]",
    "[{when: \"{{ error.status >= 500 }}\", then: {max_attempts: 3}}]",
    "[{when: \"{{ error is not none }}\", then: {max_attempts: 3}}]",
    "[{when: \"{{ this.error != None }}\", then: {max_attempts: 3}}]",
    "{max_attempts: 3, retry_when: \"{{ error != none }}\"}",
])
async def test_a_retry_that_asks_about_the_error_lets_a_success_pass(lab: Lab, retry: str) -> None:
    ran = await lab.run(playbook(f"""
    - step: start
      tool: {{kind: python, code: "result = {{'n': 1}}"}}
      retry: {retry}
    """))
    assert (ran.status, ran.result()) == ("completed", {"n": 1})
    assert not ran.of("task.retried")


async def test_a_condition_on_what_is_not_there_does_not_hold(lab: Lab) -> None:
    workflow = """
    - step: start
      tool:
        - name: first
          kind: python
          code: "result = {'low': {'c': 2}}"
          spec:
            policy:
              rules:
                - {when: "{{ outcome.error.retryable }}", then: {do: retry, attempts: 3}}
                - {when: "{{ outcome.result.gone.deeper > 3 }}", then: {do: fail}}
                - else: {then: {do: continue}}
        - name: second
          kind: noop
          args: {c: "{{ first.high.c if first.high else first.low.c }}", d: "{{ first.high.d | default(4) }}"}
      case:
        - {when: "{{ this.error }}", then: {next: [{step: wrong}]}}
        - {when: "{{ missing.key }}", then: {next: [{step: wrong}]}}
      next: [{step: last}]
    - step: wrong
      tool: {kind: noop}
    - step: last
      spec: {policy: {admit: {rules: [{when: "{{ workload.nobody.wrote }}", then: {allow: false}},
                                      {else: {then: {allow: true}}}]}}}
      tool: {kind: noop, args: {c: "{{ start.c + start.d }}"}}
      next: {arcs: [{step: wrong, when: "{{ last.gone }}"}, {step: wrong, when: "{{ last.gone.x == 1 }}"}]}
    """
    ran = await lab.run(playbook(workflow, workload="{a: 1}"))
    assert (ran.status, ran.result(), list(ran.summary.steps)) == ("completed", {"c": 6}, ["start", "last"])


@pytest.mark.parametrize(("key", "said"), [
    ("{kind: noop, args: {a: \"{{ workload.gone.x + 1 }}\"}}", "{{ workload.gone.x + 1 }}"),
    ("{kind: noop, args: {a: \"so {{ workload.gone }}\"}}", "so {{ workload.gone }}"),
    ("{kind: postgres, auth: pg_k8s, command: \"SELECT {{ workload.gone }}\"}", "SELECT {{ workload.gone }}"),
    ("{kind: shell, cmds: [\"echo {{ workload.gone }}\"]}", "echo {{ workload.gone }}"),
])
async def test_what_is_not_there_cannot_be_put_anywhere(lab: Lab, key: str, said: str) -> None:
    await lab.database()
    ran = await lab.run(playbook(f"- step: start\n  tool: {key}", workload="{a: 1}"))
    assert (ran.status, ran.error["kind"]) == ("failed", "template")
    assert "is undefined" in ran.error["message"]
    assert f"`{said}`" in ran.error["message"]


async def test_a_message_speaks_of_what_the_author_wrote(lab: Lab) -> None:
    workflow = """
    - step: start
      tool: {kind: python, code: "result = {'n': 1}"}
      vars: {n: "{{ result.gone }}"}
    """
    ran = await lab.run(playbook(workflow))
    assert (ran.status, ran.error["kind"]) == ("failed", "template")
    said = "what is set at the end of step start: the value is undefined, in `{{ result.gone }}`"
    assert ran.error["message"] == said
