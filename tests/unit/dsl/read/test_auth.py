"""`auth` of a task and the keys of which exactly one is given."""

from typing import Any

import pytest

from shared.dsl.compile import Compiled, compile_playbook
from shared.tools import registry
from tests.support.playbooks import head

HEAD = head("a") + "workload: {x: y}\nworkflow:\n"


def _compiled(task: str, *, strict: bool = False) -> Compiled:
    source = f"{HEAD}  - step: start\n    tool: {{{task}}}\n"
    return compile_playbook(source, kinds=registry.specs(), strict=strict)


def _auth(task: str) -> Any:
    compiled = _compiled(task)
    assert compiled.plan is not None, compiled.diagnostics
    return compiled.plan.steps["start"].tasks[0].config.get("auth")


PG = "kind: postgres, command: SELECT 1, "
DUCK = "kind: duckdb, command: SELECT 1, "


@pytest.mark.parametrize(("task", "auth"), [
    (PG + "auth: pg", "pg"),
    (PG + "auth: {}", None),
    (PG + "auth: {type: postgres, credential: pg}", "pg"),
    (PG + "auth: {source: credential, key: '{{ x }}', scope: a}", "{{ x }}"),
    (PG + "auth: {pg: {source: credential, type: postgres, key: '{{ x }}'}}", "{{ x }}"),
    (DUCK + "auth: keys", "keys"),
    (DUCK + "auth: {source: credential, key: keys}", "keys"),
    (DUCK + "auth: {credential: keys, type: gcs}", {"secret": {"credential": "keys", "type": "gcs"}}),
    (DUCK + "auth: {pg_db: {credential: pg, type: postgres}}", {"pg_db": {"credential": "pg", "type": "postgres"}}),
    (DUCK + "auth: {a: {source: credential, tool: postgres, key: pg}, b: {tool: hmac, key: k, scope: 'gs://{{ x }}'}}",
     {"a": {"credential": "pg", "type": "postgres"},
      "b": {"credential": "k", "type": "hmac", "scope": "gs://{{ x }}"}}),
    ("kind: python, code: x, auth: {gcs: {service: s, source: credential, tool: service_account, key: k}}",
     {"gcs": {"credential": "k", "type": "service_account"}}),
])
def test_a_reference_names_a_credential(task: str, auth: Any) -> None:
    assert _auth(task) == auth
    assert not _compiled(task).diagnostics


@pytest.mark.parametrize(("auth", "found"), [
    ("{openai: {type: bearer, provider: secret_manager, key: path, oauth_credential: g}}", "path"),
    ("{source: adc}", "adc"),
])
def test_another_place_to_keep_credentials_is_told_and_the_keychain_asked(auth: str, found: str) -> None:
    task = f"kind: http, url: 'http://h', auth: {auth}"
    assert _auth(task) == found
    assert [(each.code, each.severity) for each in _compiled(task).diagnostics] == [("DSL903", "warning")]


@pytest.mark.parametrize(("task", "code"), [
    (PG + "auth: {a: {key: x}, b: {key: y}}", "DSL204"),
    (PG + "auth: {host: x}", "DSL203"),
    (DUCK + "auth: {a: {key: x, port: 3}}", "DSL201"),
    (DUCK + "auth: {a: {type: postgres}}", "DSL202"),
    (DUCK + "auth: {a-b: {credential: x}}", "DSL205"),
    (DUCK + "auth: {a: x}", "DSL203"),
    (DUCK + "auth: {a: {credential: 3}}", "DSL203"),
    ("kind: python", "DSL202"),
    ("kind: python, code: x, script: {uri: y}", "DSL204"),
    ("kind: postgres, auth: pg", "DSL202"),
    ("kind: postgres, command: x, table: t", "DSL204"),
    ("kind: python, script: {uri: y, source: {type: ftp}}", "DSL204"),
    ("kind: python, script: y.py", "DSL203"),
    (PG + "with: {db_name: x, colour: y}", "DSL201"),
    (PG + "pool: {max_size: 1, colour: y}", "DSL201"),
    ("kind: postgres, table: t, mode: replace", "DSL204"),
])
def test_a_mistake_is_told(task: str, code: str) -> None:
    errors = [each.code for each in _compiled(task).diagnostics if each.severity == "error"]
    assert code in errors


def test_the_canonical_form_of_several_credentials_is_strict() -> None:
    task = DUCK + "auth: {pg_db: {credential: pg, type: postgres}}"
    assert _compiled(task, strict=True).plan is not None
    assert _compiled(DUCK + "auth: {pg_db: {key: pg}}", strict=True).plan is None


@pytest.mark.parametrize("task", [
    f"kind: playbook, path: {'p' * 257}",
    f"kind: playbook, path: p, version: {'v' * 65}",
    f"kind: playbook, path: p, return_step: {'s' * 129}",
    PG + f"auth: {'a' * 129}",
    DUCK + f"auth: {{a: {{credential: {'a' * 129}}}}}",
])
def test_a_name_that_is_too_long_is_told_where_it_is_written(task: str) -> None:
    (found,) = _compiled(task).diagnostics
    assert (found.code, "characters" in found.message) == ("DSL204", True)
