"""Playbooks that run jobs of Kubernetes: their keys are checked before anything runs."""

from typing import Any

import pytest

from shared.dsl.compile import compile_playbook
from shared.tools.registry import specs

HEAD = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: p}
workload: {image: img, ns: work, uri: "gs://b/o.py", cred: gcs}
keychain: [{name: sa, kind: credential}]
workflow:
  - step: start
    tool:
"""
CONTAINER = """
      kind: container
      runtime:
        provider: kubernetes
        namespace: "{{ ns }}"
        image: "{{ image }}"
        command: [/bin/bash, /workspace/init.sh]
        serviceAccountName: runner
        backoffLimit: 0
        activeDeadlineSeconds: 600
        cleanup: true
        resources: {limits: {cpu: 500m, memory: 512Mi}, requests: {cpu: 100m}}
      env: {PGHOST: db, EXECUTION_ID: "{{ execution_id }}"}
      timeout: 900
"""
SCRIPT = """
      kind: script
      script: {uri: "{{ uri }}", source: {type: gcs, auth: "{{ cred }}"}}
      args: {input_file: a.csv}
      job:
        image: python:3.11-slim
        namespace: noetl
        ttlSecondsAfterFinished: 300
        backoffLimit: 3
        install_dependencies: [google-auth, requests]
        resources: {requests: {memory: 256Mi}}
        env: {ACCOUNT: "{{ keychain.sa.json | tojson }}"}
"""


def compiled(task: str) -> Any:
    return compile_playbook((HEAD + task.lstrip("\n")).encode(), kinds=specs(), file="p.yaml")


@pytest.mark.parametrize("task", [CONTAINER, SCRIPT])
def test_jobs_as_people_write_them_compile(task: str) -> None:
    found = compiled(task)
    assert [each for each in found.diagnostics if each.severity == "error"] == []
    assert found.plan is not None


def test_a_timeout_beside_the_keys_is_the_call_s() -> None:
    assert compiled(CONTAINER).plan.steps["start"].tasks[0].spec == {"timeout": 900}


@pytest.mark.parametrize(("old", "new", "code", "said"), [
    ("provider: kubernetes", "provider: docker", "DSL204", "kubernetes"),
    ("        image: ", "        imge: ", "DSL202", "The container's image."),
    ("backoffLimit", "backofLimit", "DSL201", "did you mean backoffLimit?"),
    ("kind: container", "kind: containr", "DSL405", "did you mean container?"),
    ("env: {PGHOST", "output: yaml\n      env: {PGHOST", "DSL204", "one of: text, json"),
])
def test_a_mistake_is_told_with_its_fix(old: str, new: str, code: str, said: str) -> None:
    found = [(each.code, each.fix) for each in compiled(CONTAINER.replace(old, new, 1)).diagnostics]
    assert any(code == each and said in fix for each, fix in found), found


def test_a_script_is_loaded_or_written_out_but_not_both() -> None:
    both = SCRIPT.replace("      args:", "      code: print(1)\n      args:")
    assert [(each.code, each.fix) for each in compiled(both).diagnostics] == [("DSL204", "keep one of the two")]


def test_a_secret_from_the_environment_of_a_worker_stays_refused() -> None:
    """Only the keychain is asked, whatever the provider is called."""
    (told,) = compiled("\n      kind: secrets\n      provider: env\n").diagnostics
    assert told.code == "DSL202"
    assert "keychain" in told.fix
