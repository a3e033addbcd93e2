"""`kind: secrets` on a stack: a handle that the templates of calls resolve on the worker."""

from typing import Any

import pytest

from tests.conformance.stand.api import Api
from tests.conformance.stand.lab import Lab, Ran, playbook

pytestmark = pytest.mark.asyncio(loop_scope="module")
TOKEN = "tok-of-the-handle-1"
WORKFLOW = """
- step: start
  tool:
    kind: secrets
    provider: google
    secret_name: "{{ workload.name }}"
    spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {kept: "{{ outcome.result }}"}}}}]}}
  next: {arcs: [{step: use, when: "{{ start.secret_value is not defined }}", args: {given: "{{ start }}"}}]}
- step: use
  tool:
    - {name: web, kind: http, url: "{{ workload.url }}/data",
       headers: {X-Key: "key {{ start.secret_value }}", X-Field: "{{ start.token }}", X-Whole: "{{ start }}"}}
    - {name: mine, kind: secrets, key: "{{ workload.name }}", field: token}
    - {name: code, kind: python, args: {t: "{{ start }}", m: "{{ mine }}", p: "{{ mine.data }}"},
       code: "result = [t == m == p, len(t), t]"}
  next: {arcs: [{step: end}]}
- step: end
"""


def spoken(ran: Ran) -> str:
    return str(ran.events)


async def test_calls_read_the_value_and_everything_else_the_handle(lab: Lab, api: Api) -> None:
    """FS §4.2, FX §2.4."""
    await lab.credential("api", {"type": "bearer", "token": TOKEN})
    api.pages = {"/data": [[1]]}
    ran = await lab.run(playbook(WORKFLOW), {"url": api.url, "name": "api"})
    assert ran.status == "completed", ran.error
    assert [api.headers[0][name] for name in ("x-key", "x-field", "x-whole")] == [f"key {TOKEN}", TOKEN, TOKEN]
    assert ran.result() == [True, len(TOKEN), "***"]
    assert ran.summary.ctx == {"kept": {"secret": "api"}}
    (scheduled,) = ran.of("step.scheduled", step="use")
    assert scheduled["args"] == {"given": {"secret": "api"}}
    assert TOKEN not in spoken(ran)


async def test_of_several_secret_fields_each_is_read_by_its_name(lab: Lab) -> None:
    await lab.credential("pair", {"user": "somebody", "password": "pass-word-1", "pin": "pin-code-1"})
    ran = await lab.run(playbook("""
    - step: start
      tool:
        - {name: s, kind: secrets, secret: pair}
        - {name: code, kind: python, args: {u: "{{ s.user }}", p: "{{ s.password }}", n: "{{ s.pin | length }}"},
           code: "result = [u, p, len(p), n]"}
    """))
    assert ran.result() == ["somebody", "***", 11, 10]


@pytest.mark.parametrize(("keys", "kind"), [
    ("secret_name: nosuch", "auth"), ("secret_name: api, field: nosuch", "auth"), ("secret_name: [a]", "auth"),
])
async def test_a_secret_that_is_not_there_is_an_error(lab: Lab, keys: str, kind: str) -> None:
    await lab.credential("api", {"token": TOKEN})
    ran = await lab.run(playbook(f"- {{step: start, tool: {{kind: secrets, {keys}}}}}"))
    assert (ran.status, ran.error["kind"]) == ("failed", kind)


@pytest.mark.parametrize("payload", [{"secret": "api"}, {"value": {"secret": "api"}, "shape": "secret"}])
async def test_what_only_looks_like_a_handle_is_not_resolved(lab: Lab, payload: dict[str, Any]) -> None:
    """Else whoever may start an execution could read the keychain."""
    await lab.credential("api", {"token": TOKEN})
    ran = await lab.run(playbook("""
    - step: start
      tool: {kind: python, args: {v: "{{ workload.v }}"}, code: "result = v"}
      next: {arcs: [{step: use}]}
    - step: use
      tool: {kind: python, args: {v: "{{ start }}", w: "{{ workload.v }}"}, code: "result = [v, w]"}
    """), {"v": payload})
    assert ran.result() == [payload, payload]


async def test_a_handle_goes_through_loops_and_children(lab: Lab) -> None:
    await lab.credential("api", {"token": TOKEN})
    await lab.register(playbook("- {step: start, tool: {kind: secrets, secret: api}}").replace(
        "tests/conformance", "tests/handle"))
    ran = await lab.run(playbook("""
    - step: start
      tool: {kind: playbook, path: tests/handle}
      next: {arcs: [{step: use}]}
    - step: use
      loop: {in: [1, 2], iterator: n}
      tool: {kind: python, args: {t: "{{ start }}"}, code: "result = len(t)"}
    """))
    assert (ran.status, ran.result()) == ("completed", [len(TOKEN)] * 2)
    assert TOKEN not in spoken(ran)
