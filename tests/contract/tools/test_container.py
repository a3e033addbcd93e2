"""`kind: container` against a Kubernetes API: one job per call, whatever happens to the worker."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from shared.events.outcome import Outcome
from shared.tools.base.contract import Call, ToolOptions
from shared.tools.kubernetes import api as kube_api
from shared.tools.kubernetes import job_run as kube_run
from shared.tools.kubernetes import log as kube_log
from shared.tools.kubernetes.container_tool import ContainerTool
from shared.tools.kubernetes.job_tool import Jobs
from tests.support.calls import call, recorded
from tests.support.servers.kube import NAMESPACE, TOKEN, Container, Ended, Kube
from tests.support.waiting import until

KEY = "0193-exec/load_data:1/load_task/1"
FIXTURE = {
    "provider": "kubernetes", "namespace": NAMESPACE, "image": "good", "command": ["/bin/bash", "/w/init.sh"],
    "serviceAccountName": "runner", "backoffLimit": 0, "activeDeadlineSeconds": 600, "cleanup": True,
    "resources": {"limits": {"cpu": "500m", "memory": "512Mi"}, "requests": {"cpu": 1, "memory": "128Mi"}},
}


@pytest.fixture
async def tool() -> AsyncIterator[ContainerTool]:
    one = ContainerTool(ToolOptions(), Jobs(max_poll_s=0.05))
    yield one
    await one.close()


def job(kube: Kube, image: str = "good", *, key: str = KEY, timeout_s: float = 20.0, secrets: Any = None,
        auth: Any = None, env: Any = None, args: Any = None, output: str = "text", **runtime: Any) -> Call:
    config = {"runtime": {"image": image, **runtime}, "env": env or {}, "args": args or {}, "output": output}
    found = call(config, auth=auth or kube.credential, timeout_s=timeout_s, key=key)
    return msgspec.structs.replace(found, secrets=secrets or {})


def error(outcome: Outcome) -> dict[str, Any]:
    assert outcome.status == "error"
    assert outcome.error is not None
    return outcome.error


async def test_a_job_as_people_write_it_runs_and_answers(kube: Kube, tool: ContainerTool) -> None:
    outcome = await tool.run(call({"runtime": FIXTURE, "env": {"PGHOST": "db", "PGPORT": 5432}}, auth=kube.credential,
                                  key=KEY))
    assert outcome.error is None
    (made,) = kube.made("jobs")
    name, spec = made["metadata"]["name"], made["spec"]
    pod = outcome.result.pop("pod_name")
    assert pod.startswith(name[:50])
    assert outcome.result == {
        "status": "completed", "job_name": name, "namespace": NAMESPACE, "exit_code": 0, "succeeded": 1, "failed": 0,
        "execution_time": 2.0, "output": "ran ['/bin/bash', '/w/init.sh']\n", "truncated": False,
        "kubectl_logs": f"kubectl logs -n {NAMESPACE} job/{name}",
        "kubectl_describe": f"kubectl describe job -n {NAMESPACE} {name}",
    }
    assert made["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "noetl", "noetl.io/execution": "0193-exec",
                                          "noetl.io/step": "load_data"}
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"]) == (0, 600)
    assert spec["template"]["spec"]["serviceAccountName"] == "runner"
    assert spec["template"]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "128Mi"}
    assert kube.objects == {}  # cleanup: the job, its Secret and its pod


async def test_a_job_stays_for_its_time_unless_it_is_cleaned_up(kube: Kube, tool: ContainerTool) -> None:
    assert (await tool.run(job(kube, ttlSecondsAfterFinished=5))).status == "ok"
    assert [each["spec"]["ttlSecondsAfterFinished"] for each in kube.there("jobs")] == [60]
    assert (await tool.run(job(kube, key="e/s:1/t/2"))).status == "ok"
    assert [each["spec"]["ttlSecondsAfterFinished"] for each in kube.there("jobs")] == [60, 3600]


async def test_variables_reach_the_container_and_are_in_no_job(kube: Kube, tool: ContainerTool) -> None:
    seen: list[Container] = []

    async def look(container: Container) -> Ended:
        seen.append(container)
        return Ended(0, container.env["TOKEN"].encode())

    kube.images["look"] = look
    given = job(
        kube, "look", secrets={"api": {"token": "s3cr3t-value"}}, env={"TOKEN": "s3cr3t-value", "ROWS": [1, 2]},
        args={"mode": "batch"}, command=["run", "--key=s3cr3t-value"])
    outcome = await tool.run(given)
    assert outcome.error is None
    assert seen[0].command == ["run", "--key=s3cr3t-value"]
    assert {name: seen[0].env[name] for name in ("TOKEN", "ROWS")} == {"TOKEN": "s3cr3t-value", "ROWS": "[1,2]"}
    assert json.loads(seen[0].env["NOETL_ARGS"]) == {"mode": "batch"}
    assert "s3cr3t" not in json.dumps(kube.made("jobs") + kube.there("pods"))
    assert recorded(outcome, given).result["output"] == "***"
    (secret,) = kube.there("secrets")
    assert secret["metadata"]["ownerReferences"][0]["uid"] == kube.there("jobs")[0]["metadata"]["uid"]


async def test_a_pod_without_an_account_of_its_own_has_no_token(kube: Kube, tool: ContainerTool) -> None:
    await tool.run(job(kube))
    await tool.run(job(kube, key="e/s:1/t/2", serviceAccountName="runner"))
    assert [each["spec"]["template"]["spec"]["automountServiceAccountToken"] for each in kube.made("jobs")] == [
        False, True]


async def test_a_failed_job_says_exit_code_and_output(kube: Kube, tool: ContainerTool) -> None:
    outcome = await tool.run(job(kube, "bad"))
    told = error(outcome)
    assert (told["kind"], told["exit_code"], told["reason"], told["retryable"]) == (
        "container", 3, "BackoffLimitExceeded", False)
    assert told["message"].endswith("exit code 3: it broke")
    assert (outcome.result["status"], outcome.result["output"]) == ("failed", "it broke\n")


@pytest.mark.parametrize(("ended", "reason", "retryable"), [
    (Ended(137, b"", "OOMKilled"), "OOMKilled", False),
    (Ended(137, b"", "Error", "Evicted"), "Evicted", True),
])
async def test_why_a_pod_died_is_told(kube: Kube, tool: ContainerTool, ended: Ended, reason: str,
                                      retryable: bool) -> None:
    async def die(_container: Container) -> Ended:
        return ended

    kube.images["die"] = die
    told = error(await tool.run(job(kube, "die")))
    assert (told["kind"], told["reason"], told["exit_code"], told["retryable"]) == ("container", reason, 137, retryable)


async def test_a_deadline_of_the_job_is_told(kube: Kube, tool: ContainerTool) -> None:
    told = error(await tool.run(job(kube, "slow", activeDeadlineSeconds=1)))
    assert (told["kind"], told["reason"]) == ("container", "DeadlineExceeded")


async def test_kubernetes_tries_again_as_often_as_it_may(kube: Kube, tool: ContainerTool) -> None:
    async def third(container: Container) -> Ended:
        return Ended(0 if container.attempt == 3 else 1, f"attempt {container.attempt}".encode())

    kube.images["third"] = third
    outcome = await tool.run(job(kube, "third", backoffLimit=3))
    assert (outcome.result["output"], outcome.result["failed"]) == ("attempt 3", 2)


async def test_an_image_that_cannot_be_had_is_told_early(kube: Kube, tool: ContainerTool) -> None:
    told = error(await tool.run(job(kube, "nowhere")))
    assert (told["kind"], told["reason"], told["retryable"]) == ("config", "ImagePullBackOff", False)
    assert kube.objects == {}


async def test_a_container_that_never_starts_is_told_after_a_while(kube: Kube, tool: ContainerTool,
                                                                   monkeypatch) -> None:
    monkeypatch.setattr(kube_run, "STUCK_S", 0.2)
    running = asyncio.create_task(tool.run(job(kube, env={"A": 1})))
    await until(lambda: kube.there("secrets"), "a secret is made", 5.0)
    kube.remove("secrets", kube.there("secrets")[0]["metadata"]["name"])
    told = error(await running)
    assert (told["kind"], told["reason"]) == ("config", "CreateContainerConfigError")
    assert kube.objects == {}


async def test_the_last_line_can_be_read_as_json(kube: Kube, tool: ContainerTool) -> None:
    async def say(container: Container) -> Ended:
        return Ended(0, b'starting\n{"rows": 3}\n\n' if container.env.get("JSON") else b"done")

    kube.images["say"] = say
    assert (await tool.run(job(kube, "say", env={"JSON": 1}, output="json"))).result["data"] == {"rows": 3}
    assert error(await tool.run(job(kube, "say", key="e/s:1/t/2", output="json")))["kind"] == "decode"


async def test_a_long_output_keeps_its_head_and_its_tail(kube: Kube, tool: ContainerTool) -> None:
    async def talk(_container: Container) -> Ended:
        return Ended(0, b"first\n" + b"x" * 3_000_000 + b"\nlast")

    kube.images["talk"] = talk
    result = (await tool.run(job(kube, "talk"))).result
    assert result["truncated"]
    assert result["output"].startswith("first\n")
    assert result["output"].endswith("\nlast")
    assert len(result["output"]) < kube_log.LOG_HEAD + kube_log.LOG_TAIL + 100


# -- crashes and repetitions -----------------------------------------------------------


async def test_a_repeated_call_goes_on_with_its_job(kube: Kube, tool: ContainerTool) -> None:
    done = asyncio.Event()

    async def wait(_container: Container) -> Ended:
        await done.wait()
        return Ended(0, b"once")

    kube.images["wait"] = wait
    first = asyncio.create_task(tool.run(job(kube, "wait", env={"A": 1})))
    await until(lambda: kube.there("pods"), "a pod is made", 5.0)
    again = ContainerTool(ToolOptions(), Jobs(max_poll_s=0.05))
    second = asyncio.create_task(again.run(job(kube, "wait", env={"A": 1})))
    await until(lambda: [method for method, _, _ in kube.requests], "a second PATCH", 5.0,
                so=lambda asked: asked.count("PATCH") == 2)
    first.cancel()  # its worker has lost the run: the job is the other's
    await asyncio.wait({first})
    done.set()
    assert (await second).result["output"] == "once"
    assert len(kube.there("pods")) == len(kube.there("jobs")) == 1
    await again.close()


@pytest.mark.parametrize("died_after", ["jobs", "secrets"])
async def test_a_job_that_was_never_let_go_is_finished_by_the_next(kube: Kube, tool: ContainerTool,
                                                                   died_after: str) -> None:
    """A worker that dies between two requests leaves a job that waits."""
    stuck = "secrets" if died_after == "jobs" else "jobs"
    kube.denied = {("POST", stuck) if stuck == "secrets" else ("PATCH", stuck), ("DELETE", "jobs")}
    assert error(await tool.run(job(kube, env={"A": 1})))["kind"] == "auth"
    assert (len(kube.there("jobs")), len(kube.there("pods"))) == (1, 0)
    kube.denied = set()
    assert (await tool.run(job(kube, env={"A": 1}))).status == "ok"
    assert (len(kube.there("jobs")), len(kube.there("pods")), len(kube.there("secrets"))) == (1, 1, 1)


async def test_a_finished_job_is_not_run_again(kube: Kube, tool: ContainerTool) -> None:
    first = await tool.run(job(kube, "bad"))
    assert msgspec.structs.replace(await tool.run(job(kube, "bad")), meta={}) == first
    assert len(kube.there("pods")) == 1


async def test_a_job_that_is_being_deleted_is_waited_for(kube: Kube, tool: ContainerTool) -> None:
    await tool.run(job(kube, env={"A": 1}))
    (old,) = kube.there("jobs")
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    running = asyncio.create_task(tool.run(job(kube, env={"A": 1})))
    await asyncio.sleep(0.3)
    assert kube.there("jobs") == [old]
    secret = kube.there("secrets")[0]
    kube.remove("jobs", old["metadata"]["name"])
    kube.put("secrets", secret)  # the rest of it goes later
    assert (await running).status == "ok"
    (new,) = kube.there("jobs")
    owner = kube.there("secrets")[0]["metadata"]["ownerReferences"][0]["uid"]
    assert owner == new["metadata"]["uid"] != old["metadata"]["uid"]


async def test_a_job_of_another_call_is_left_alone(kube: Kube, tool: ContainerTool) -> None:
    await tool.run(job(kube))
    kube.there("jobs")[0]["metadata"]["annotations"]["noetl.io/call"] = "another"
    told = error(await tool.run(job(kube)))
    assert (told["kind"], len(kube.there("jobs"))) == ("config", 1)


async def test_a_call_over_its_time_deletes_its_job(kube: Kube, tool: ContainerTool) -> None:
    outcome = await tool.run(job(kube, "slow", timeout_s=0.5, env={"A": 1}))
    assert (error(outcome)["kind"], outcome.result["output"]) == ("timeout", "starting\n")
    assert kube.objects == {}


async def test_a_cancelled_call_deletes_its_job(kube: Kube, tool: ContainerTool) -> None:
    running = asyncio.create_task(tool.run(job(kube, "slow", env={"A": 1})))
    await until(lambda: kube.there("pods"), "a pod is made", 5.0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert kube.objects == {}


async def test_a_job_that_comes_after_its_call_was_cancelled_is_deleted(kube: Kube, tool: ContainerTool) -> None:
    kube.lag = 0.4
    running = asyncio.create_task(tool.run(job(kube, "slow")))
    await until(lambda: kube.requests, "the cluster is asked", 5.0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [each for each in kube.deleted if each.startswith("jobs/")]
    assert kube.objects == {}


@pytest.mark.parametrize("status", [404, 410])
async def test_a_job_that_the_api_no_longer_knows_is_told(kube: Kube, tool: ContainerTool, status: int) -> None:
    kube.faults = [0, status]
    assert error(await tool.run(job(kube, "slow")))["reason"] == "Deleted"
    assert kube.objects == {}


async def test_a_job_somebody_deletes_is_told(kube: Kube, tool: ContainerTool) -> None:
    running = asyncio.create_task(tool.run(job(kube, "slow")))
    await until(lambda: kube.there("pods"), "a pod is made", 5.0)
    kube.remove("jobs", kube.there("jobs")[0]["metadata"]["name"])
    told = error(await running)
    assert (told["kind"], told["reason"], told["retryable"]) == ("container", "Deleted", True)


# -- the API ---------------------------------------------------------------------------


async def test_an_api_that_is_away_for_a_while_ends_no_job(kube: Kube, tool: ContainerTool) -> None:
    kube.faults = [503, 0, 500, 0, 0, 429, 503, 503, 503, 503, 503, 0, 504, 0, 0, 503]
    assert (await tool.run(job(kube, env={"A": 1}))).status == "ok"
    assert kube.faults == []
    assert len(kube.there("pods")) == 1


async def test_an_api_that_stays_away_is_told_and_may_be_tried_again(kube: Kube, tool: ContainerTool,
                                                                    monkeypatch) -> None:
    monkeypatch.setattr(kube_api, "FIRST_PAUSE_S", 0.01)
    kube.faults = [503] * 100
    told = error(await tool.run(job(kube)))
    assert (told["kind"], told["status"], told["retryable"]) == ("kubernetes", 503, True)
    nowhere = {**kube.credential, "server": "http://127.0.0.1:1"}
    told = error(await tool.run(job(kube, auth=nowhere)))
    assert (told["kind"], told["retryable"]) == ("connect", True)


@pytest.mark.parametrize(("change", "status"), [({"token": "another-token"}, 401), ({}, 403)])
async def test_an_account_without_the_right_is_told(kube: Kube, tool: ContainerTool, change: dict[str, str],
                                                    status: int) -> None:
    kube.denied = {("POST", "jobs")}
    told = error(await tool.run(job(kube, auth={**kube.credential, **change})))
    assert (told["kind"], told["status"], told["retryable"]) == ("auth", status, False)
    assert TOKEN not in str(told)


async def test_what_kubernetes_refuses_is_told_in_its_words(kube: Kube, tool: ContainerTool) -> None:
    told = error(await tool.run(job(kube, tolerations=[{"oops": 1}])))
    assert (told["kind"], told["status"], told["retryable"]) == ("config", 422, False)
    assert "oops" in told["message"]
    assert error(await tool.run(job(kube, namespace="elsewhere")))["status"] == 404


@pytest.mark.parametrize("wrong", [
    {"image": ""}, {"namespace": "Not/A/Name"}, {"backoffLimit": -1}, {"command": "run me"}, {"cleanup": "maybe"},
    {"resources": {"cpu": 1}}, {"provider": "docker"}, {"activeDeadlineSeconds": 0}, {"command": ["a", {"b": 1}]},
])
async def test_a_mistake_in_the_runtime_is_told_before_anything_runs(kube: Kube, tool: ContainerTool,
                                                                     wrong: dict[str, Any]) -> None:
    told = error(await tool.run(call({"runtime": {"image": "good", **wrong}}, auth=kube.credential)))
    assert (told["kind"], told["retryable"]) == ("config", False)
    assert kube.requests == []


@pytest.mark.parametrize(("env", "kind"), [({"a b": 1}, "config"), ({"A": "\0"}, "config"),
                                           ({"A": "x" * 130_000}, "limit"),
                                           ({f"A{n}": "x" * 110_000 for n in range(5)}, "limit")])
async def test_variables_no_container_can_have_are_refused(kube: Kube, tool: ContainerTool, env: dict[str, Any],
                                                           kind: str) -> None:
    assert error(await tool.run(job(kube, env=env)))["kind"] == kind
