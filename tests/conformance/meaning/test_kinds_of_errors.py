"""Kinds of errors by the names that playbooks of today have for them, on a real stack."""

import pytest

from tests.conformance.stand.api import Api
from tests.conformance.stand.lab import Lab, playbook

pytestmark = pytest.mark.asyncio(loop_scope="module")


def asking(api: Api, kind: str) -> str:
    return playbook(f"""
    - step: start
      tool:
        - name: ask
          kind: http
          method: GET
          url: "{api.url}/items"
          spec:
            policy:
              rules:
                - when: "{{{{ outcome.error.kind == '{kind}' }}}}"
                  then: {{do: retry, attempts: 3, delay: 0}}
                - {{when: "{{{{ outcome.status == 'error' }}}}", then: {{do: fail}}}}
                - else: {{then: {{do: continue}}}}
      next: {{arcs: [{{step: other, when: "{{{{ event.error.kind != '{kind}' }}}}"}}]}}
    - step: other
      tool: {{kind: noop}}
    """)


@pytest.mark.parametrize(("kind", "status"), [
    ("rate_limit", 429), ("server_error", 500), ("server_error", 503), ("auth", 401), ("auth", 403), ("not_found", 404),
    ("client_error", 422)])
async def test_a_rule_knows_an_answer_by_its_kind(lab: Lab, api: Api, kind: str, status: int) -> None:
    api.pages["/items"], api.broken["/items", 1] = [[1]], [status, status]
    ran = await lab.run(asking(api, kind))
    assert (ran.status, len(api.asked)) == ("completed", 3), ran.error


@pytest.mark.parametrize(("kind", "status"), [("rate_limit", 500), ("server_error", 429), ("auth", 404)])
async def test_another_answer_is_not_of_that_kind(lab: Lab, api: Api, kind: str, status: int) -> None:
    api.refused["/items"] = status
    ran = await lab.run(asking(api, kind))
    assert (ran.status, len(api.asked), list(ran.summary.steps)) == ("completed", 1, ["start", "other"])


@pytest.mark.parametrize("listed", ["['timeout', 'rate_limit']", "('rate_limit', 'connection',)"])
async def test_kinds_are_known_in_a_list_too(lab: Lab, api: Api, listed: str) -> None:
    book = asking(api, "x").replace("error.kind == 'x'", f"error.kind in {listed}").replace(
        "error.kind != 'x'", f"error.kind not in {listed}")
    api.pages["/items"], api.broken["/items", 1] = [[1]], [429]
    ran = await lab.run(book)
    assert (ran.status, len(api.asked)) == ("completed", 2), ran.error
    api.refused["/items"] = 500
    ran = await lab.run(book)
    assert (ran.status, len(api.asked), list(ran.summary.steps)) == ("completed", 3, ["start", "other"]), ran.error
