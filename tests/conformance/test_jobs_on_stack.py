"""Jobs of Kubernetes on real services: the cluster is one that tests hold, everything else is the product."""

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.conformance.stand.lab import Lab, playbook
from tests.support.servers.kube import NAMESPACE, Container, Ended, Kube

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def kube() -> AsyncIterator[Kube]:
    async def init(container: Container) -> Ended:
        env = container.env
        return Ended(0, f"{container.command[1]} for {env['EXECUTION']} as {env['PASSWORD']}".encode())

    async def process(container: Container) -> Ended:
        args = json.loads(container.command[-1])
        assert args == json.loads(container.env["NOETL_ARGS"])
        account = json.loads(container.env["ACCOUNT"])
        return Ended(0, b"busy\n" + json.dumps({"rows": args["rows"], "project": account["project"]}).encode())

    async def broken(_container: Container) -> Ended:
        return Ended(7, b"no space left")

    one = Kube()
    one.images |= {"init:1": init, "python:3.11-slim": process, "broken:1": broken}
    await one.start()
    yield one
    await one.close()


async def test_a_job_and_a_program_run_and_keep_their_secrets(lab: Lab, kube: Kube) -> None:
    await lab.credential("cluster", kube.credential)
    await lab.credential("pg_secret", {"password": "swordfish"})
    await lab.credential("sa", {"json": {"project": "p1", "private_key": "line 1\nline 2"}})
    workflow = """
    - step: start
      tool:
        kind: container
        auth: cluster
        runtime:
          provider: kubernetes
          namespace: "{{ namespace }}"
          image: "{{ image }}"
          command: [/bin/bash, /workspace/init.sh]
          backoffLimit: 0
          cleanup: true
          resources: {limits: {cpu: 500m, memory: 512Mi}}
        env: {PASSWORD: "{{ keychain.pg_secret.password }}", EXECUTION: "{{ execution_id }}"}
      next: process
    - step: process
      tool:
        kind: script
        auth: cluster
        script: {uri: process.py, source: {type: inline, code: "print('a program')"}}
        args: {rows: 3}
        output: json
        job:
          image: python:3.11-slim
          namespace: "{{ namespace }}"
          ttlSecondsAfterFinished: 300
          env: {ACCOUNT: "{{ keychain.sa.json | tojson }}"}
      next: check
    - step: check
      tool:
        kind: python
        args: {job: "{{ process }}", said: "{{ start.output }}"}
        code: |
          result = {"status": job["status"], "data": job["data"], "said": said}
    """
    ran = await lab.run(playbook(
        workflow, workload=f"{{image: 'init:1', namespace: {NAMESPACE}}}",
        root="keychain: [{name: pg_secret, kind: credential}, {name: sa, kind: credential}]\n"))
    assert ran.status == "completed", ran.error
    said = ran.result()["said"]
    assert said.startswith("/workspace/init.sh for ")
    assert said.endswith(" as ***")
    assert (ran.result()["status"], ran.result()["data"]) == ("completed", {"rows": 3, "project": "p1"})
    jobs = kube.made("jobs")
    assert {each["metadata"]["labels"]["noetl.io/step"] for each in jobs} == {"start", "process"}
    assert not [secret for secret in ("swordfish", "line 2") if secret in json.dumps([jobs, kube.there("pods")])]
    assert [each["metadata"]["labels"]["noetl.io/step"] for each in kube.there("jobs")] == ["process"]


async def test_the_exit_code_of_a_job_reaches_arcs(lab: Lab, kube: Kube) -> None:
    await lab.credential("cluster", kube.credential)
    workflow = """
    - step: start
      tool: {kind: container, auth: cluster, runtime: {image: "broken:1"}}
      next:
        arcs:
          - {step: clean, when: "{{ event.name == 'step.failed' and event.error.exit_code == 7 }}"}
    - step: clean
      tool: {kind: noop, args: {cleaned: true}}
    """
    ran = await lab.run(playbook(workflow))
    assert (ran.status, ran.result()) == ("completed", {"cleaned": True})
