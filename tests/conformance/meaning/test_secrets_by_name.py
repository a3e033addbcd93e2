"""How a playbook may name a credential, on a real stack."""

import pytest

from tests.conformance.stand.api import Api
from tests.conformance.stand.lab import Lab, playbook

pytestmark = pytest.mark.asyncio(loop_scope="module")

SENT = """
    - step: use
      tool: {kind: http, method: GET, url: "%s/items", headers: {X-Key: "{{ key }}"}}
"""


@pytest.mark.parametrize("tool", [
    "{kind: secrets, name: API_KEY, provider: env}",
    "[{name: API_KEY, kind: secrets, provider: env}]",
    "{kind: secrets, secret_name: projects/7/secrets/api-key/versions/1}",
])
async def test_a_secret_is_called_by_the_task_or_by_a_path(lab: Lab, api: Api, tool: str) -> None:
    await lab.credential("API_KEY", {"value": "key-of-the-api"})
    await lab.credential("projects/7/secrets/api-key/versions/1", {"value": "key-of-the-api"})
    api.pages["/items"] = [[1]]
    ran = await lab.run(playbook(f"""
    - step: key
      tool: {tool}
      next: {{arcs: [{{step: use}}]}}
{SENT % api.url}""", root="executor: {kind: local, spec: {entry_step: key}}\n"))
    assert ran.status == "completed", ran.error
    assert api.headers[-1]["x-key"] == "key-of-the-api"


async def test_a_task_finds_its_credential_by_a_path(lab: Lab, api: Api) -> None:
    await lab.credential("projects/7/secrets/token", {"token": "token-of-the-api"})
    api.pages["/items"] = [[1]]
    ran = await lab.run(playbook(f"""
    - step: start
      tool:
        kind: http
        method: GET
        url: "{api.url}/items"
        auth: {{api: {{type: bearer, provider: secret_manager, key: projects/7/secrets/token}}}}
    """))
    assert ran.status == "completed", ran.error
    assert api.headers[-1]["authorization"] == "Bearer token-of-the-api"


@pytest.mark.parametrize(("payload", "sent"), [({}, "key-of-one"), ({"which": "key_two"}, "key-of-two")])
async def test_a_template_says_which_credential_an_entry_of_the_keychain_is(
    lab: Lab, api: Api, payload: dict[str, str], sent: str
) -> None:
    await lab.credential("key_one", {"value": "key-of-one"})
    await lab.credential("key_two", {"value": "key-of-two"})
    api.pages["/items"] = [[1]]
    root = 'keychain: [{name: api, kind: credential, credential: "{{ which }}"}]\n'
    entry = await lab.register(playbook(f"""
    - step: start
      tool: {{kind: http, method: GET, url: "{api.url}/items", headers: {{X-Key: "{{{{ keychain.api.value }}}}"}}}}
    """, workload="{which: \"{{ which | default('key_one') }}\"}", root=root))
    ran = await lab.execute(entry.path, entry.version, dict(payload))
    assert ran.status == "completed", ran.error
    assert api.headers[-1]["x-key"] == sent
