"""When retries are over, on a real stack."""

import pytest

from tests.conformance.stand.api import Api
from tests.conformance.stand.lab import Lab, playbook, rows
from tests.support.paths import EXAMPLES

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_v10_with_a_server_that_is_never_there_stores_nothing_and_fails(lab: Lab, api: Api) -> None:
    dsn = await lab.database()
    api.refused = {"/cities": 503, "/hotels": 503}
    source = (EXAMPLES / "v10_pagination.yaml").read_text(encoding="utf-8")
    quick = source.replace("attempts: 10, backoff: exponential, delay: 2.0", "attempts: 3, delay: 0.01")
    assert quick != source
    wanted = [{"path": path, "page_size": 2} for path in ("/cities", "/hotels")]
    ran = await lab.run(quick, {"api_url": api.url, "endpoints": wanted})
    (end,) = ran.of("step.failed", step="fetch_all_endpoints")
    assert (end["error"]["status"], end["error"]["task"], end["error"]["failed"]) == (503, "fetch_page", 2)
    assert [api.asked.count((path, 1)) for path in ("/cities", "/hotels")] == [3, 3]
    assert ran.of("next.selected", step="fetch_all_endpoints", arcs=["cleanup"])
    assert not ran.of("task.done", task="store_200")
    assert await rows(dsn, "SELECT * FROM results_ok") == []


async def test_retries_that_are_used_up_go_to_a_rule_of_their_own_and_not_to_else(lab: Lab, api: Api) -> None:
    api.refused = {"/a": 503}

    def workflow(rule: str) -> str:
        return f"""
        - step: start
          tool:
            kind: http
            url: "{{{{ workload.url }}}}/a"
            spec:
              policy:
                rules:
                  - {{when: "{{{{ outcome.status == 'error' }}}}", then: {{do: retry, attempts: 2, delay: 0}}}}
                  {rule}
                  - else: {{then: {{do: continue}}}}
        """

    ran = await lab.run(playbook(workflow("")), {"url": api.url})
    assert (ran.status, ran.error["kind"], ran.error["attempt"]) == ("failed", "http", 2)
    taken = "- {when: \"{{ outcome.http.status == 503 }}\", then: {do: continue}}"
    ran = await lab.run(playbook(workflow(taken)), {"url": api.url})
    assert ran.status == "completed"


async def test_a_success_that_is_asked_for_again_too_often_fails(lab: Lab) -> None:
    workflow = """
    - step: start
      tool:
        - name: poll
          kind: python
          code: "result = {'ready': False}"
          spec:
            policy:
              rules:
                - {when: "{{ not outcome.result.ready }}", then: {do: retry, attempts: 3, delay: 0}}
                - else: {then: {do: continue}}
    """
    ran = await lab.run(playbook(workflow))
    assert (ran.status, ran.error["kind"]) == ("failed", "policy")
    assert ran.error["message"] == "task poll was tried 3 times, and its rules ask for one more"


async def test_the_first_policy_that_matches_is_the_only_one(lab: Lab, api: Api) -> None:
    """FX §6.2."""
    api.refused = {"/a": 503}
    workflow = """
    - step: start
      tool: {kind: http, url: "{{ workload.url }}/a"}
      retry:
        - {when: "{{ error.status == 503 }}", then: {max_attempts: 2}}
        - {when: "{{ error.status in [500, 503] }}", then: {max_attempts: 5}}
    """
    ran = await lab.run(playbook(workflow), {"url": api.url})
    assert (ran.status, len(api.asked)) == ("failed", 2)
