"""Which arcs a failure takes, on a real stack: those alone that ask what happened."""

from pathlib import Path

import pytest

from services.cli.console import exits
from tests.conformance.stand.api import Api
from tests.conformance.stand.lab import Lab, playbook
from tests.support.cli import Cli, cli

__all__ = ["cli"]
pytestmark = pytest.mark.asyncio(loop_scope="module")

BRANCHES = """
- step: start
  tool: %s
  next:
    arcs:
      - {step: more, when: "{{ start.more == true }}"}
      - {step: enough, when: "{{ start.more != true }}"}
- step: more
  tool: {kind: noop}
- step: enough
  tool: {kind: noop}
"""
RAISES = "{kind: python, code: \"raise ValueError('no')\"}"


async def test_an_exception_takes_no_arc_that_is_about_data(lab: Lab) -> None:
    ran = await lab.run(playbook(BRANCHES % RAISES))
    assert (ran.status, list(ran.summary.steps)) == ("failed", ["start"])
    assert "ValueError" in ran.error["message"]


async def test_an_exception_ends_noetlctl_as_a_failure(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "book.yaml"
    file.write_text(playbook(BRANCHES % RAISES), encoding="utf-8")
    done = cli("run", str(file))
    assert done.returncode == exits.FAILED, done.stderr
    assert "ValueError" in done.stdout + done.stderr


async def test_after_an_http_error_that_error_is_the_reason(lab: Lab, api: Api) -> None:
    api.refused = {"/status": 500}
    workflow = """
    - step: start
      tool: {kind: http, url: "{{ workload.url }}/status"}
      next: {arcs: [{step: end, when: "{{ start.data.ready }}"}, {step: later, when: "{{ not start.data.ready }}"}]}
    - step: later
      tool: {kind: noop}
    - step: end
    """
    ran = await lab.run(playbook(workflow), {"url": api.url})
    assert (ran.status, ran.error["kind"], ran.error["status"]) == ("failed", "http", 500)
    assert "undefined" not in str(ran.error)


@pytest.mark.parametrize("when", [
    "{{ event.name == 'step.failed' }}", "{{ event.error is not none }}", "{{ event.error.kind == 'python' }}",
    "{{ error }}", "{{ error.kind == 'python' }}", "{{ output.status == 'error' }}", "{{ output.error }}",
])
async def test_a_failure_takes_an_arc_that_reads_what_happened(lab: Lab, when: str) -> None:
    ran = await lab.run(playbook(f"""
    - step: start
      tool: {RAISES}
      next: {{arcs: [{{step: fine, when: "{{{{ result.x != 1 }}}}"}}, {{step: mended, when: "{when}"}}]}}
    - step: fine
      tool: {{kind: noop}}
    - step: mended
      tool: {{kind: noop}}
    """))
    assert (ran.status, list(ran.summary.steps)) == ("completed", ["start", "mended"])


@pytest.mark.parametrize("when", [
    "{{ true }}", "{{ response.x != 1 }}", "{{ result.x is not defined }}", "{{ output.data.x != 1 }}",
    "{{ not start.x }}", "{{ workload.go }}",
])
async def test_a_failure_takes_no_arc_that_reads_something_else(lab: Lab, when: str) -> None:
    ran = await lab.run(playbook(f"""
    - step: start
      tool: {RAISES}
      next: {{arcs: [{{step: end, when: "{when}"}}, {{step: end, when: true}}]}}
    - step: end
    """, workload="{go: true}"))
    assert (ran.status, list(ran.summary.steps)) == ("failed", ["start"])


async def test_rules_of_a_case_take_failures_by_the_same_rule(lab: Lab) -> None:
    workflow = f"""
    - step: start
      tool: {RAISES}
      case:
        - {{when: "{{{{ result.x != 1 }}}}", then: {{next: [{{step: fine}}]}}}}
        - {{when: "{{{{ error is defined }}}}", then: {{next: [{{step: mended}}]}}}}
    - step: fine
      tool: {{kind: noop}}
    - step: mended
      tool: {{kind: noop}}
    """
    ran = await lab.run(playbook(workflow))
    assert (ran.status, list(ran.summary.steps)) == ("completed", ["start", "mended"])
