"""How a job stands, read from what the API answers."""

from typing import Any

import pytest

from shared.tools.kubernetes import log as kube_log
from shared.tools.kubernetes import status as kube_status
from shared.tools.kubernetes.log import Log

JOB = {"metadata": {"name": "j", "uid": "u1"}}


def pod(state: dict[str, Any], *, uid: str = "u1", name: str = "p", at: str = "1", **status: Any) -> dict[str, Any]:
    both = [{"name": "proxy", "state": {"running": {}}}, {"name": "main", "state": state}]
    return {"metadata": {"name": name, "creationTimestamp": at, "ownerReferences": [{"kind": "Job", "uid": uid}]},
            "status": {"containerStatuses": both, **status}}


def ended(kind: str, reason: str = "", **status: Any) -> dict[str, Any]:
    condition = {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": "2026-01-01T00:00:05Z"}
    return {**JOB, "status": {"startTime": "2026-01-01T00:00:00Z", "conditions": [condition], **status}}


@pytest.mark.parametrize(("job", "pods", "phase", "reason"), [
    (JOB, [], "waiting", ""),
    ({**JOB, "status": {"conditions": [{"type": "Suspended", "status": "True"}]}}, [], "waiting", ""),
    (JOB, [pod({"waiting": {"reason": "ContainerCreating"}})], "waiting", "ContainerCreating"),
    (JOB, [pod({}, conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}])], "waiting",
     "Unschedulable"),
    (JOB, [pod({"running": {}})], "running", ""),
    (JOB, [pod({"waiting": {"reason": "ErrImagePull"}})], "waiting", "ErrImagePull"),
    (JOB, [pod({"waiting": {"reason": "InvalidImageName"}})], "hopeless", "InvalidImageName"),
    (JOB, [pod({"waiting": {"reason": "CreateContainerConfigError"}})], "stuck", "CreateContainerConfigError"),
    (JOB, [pod({"waiting": {"reason": "ImagePullBackOff"}}, uid="of an earlier job")], "waiting", ""),
    (ended("Complete"), [pod({"terminated": {"exitCode": 0}})], "succeeded", ""),
    (ended("Failed", "BackoffLimitExceeded"), [pod({"terminated": {"exitCode": 1, "reason": "Error"}})], "failed",
     "BackoffLimitExceeded"),
    (ended("Failed", "BackoffLimitExceeded"), [pod({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})], "failed",
     "OOMKilled"),
    (ended("Failed", "DeadlineExceeded"), [pod({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})], "failed",
     "DeadlineExceeded"),
    (ended("FailureTarget", "BackoffLimitExceeded"), [], "waiting", ""),
])
def test_a_job_stands_where_its_conditions_and_pods_say(job: Any, pods: Any, phase: str, reason: str) -> None:
    found = kube_status.read(job, pods)
    assert (found.phase, found.reason) == (phase, reason)


def test_the_latest_pod_that_ended_so_is_the_one_to_read() -> None:
    pods = [pod({"terminated": {"exitCode": 0}}, name="good", at="2", phase="Succeeded"),
            pod({"terminated": {"exitCode": 9}}, name="bad", at="3", phase="Failed"),
            pod({"terminated": {"exitCode": 8}}, name="first", at="1", phase="Failed")]
    assert kube_status.read(ended("Complete"), pods).pod == "good"
    found = kube_status.read(ended("Failed", failed=2), pods)
    assert (found.pod, found.exit_code, found.failed, found.seconds) == ("bad", 9, 2, 5.0)


def test_a_pod_that_lost_its_node_may_be_tried_again() -> None:
    target = [{"type": "DisruptionTarget", "status": "True"}]
    assert kube_status.read(ended("Failed"), [pod({}, conditions=target)]).disrupted
    assert kube_status.read(ended("Failed"), [pod({}, reason="Evicted")]).disrupted
    assert not kube_status.read(ended("Failed"), [pod({"terminated": {"exitCode": 1}})]).disrupted


def test_a_log_keeps_its_beginning_and_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("LOG_HEAD", 5), ("LOG_TAIL", 7), ("LOG_READ", 40)):
        monkeypatch.setattr(kube_log, name, size)
    log = Log()
    assert all(log.add(part) for part in (b"ab", b"cdefg", b"hijkl"))
    assert (log.text(), log.cut) == ("abcdefghijkl", False)
    assert log.add(b"mno")
    assert (log.text(), log.cut, log.ended) == ("abcde\n… 3 bytes left out …\nijklmno", True, True)
    assert not log.add(b"x" * 30)
    assert (log.cut, log.ended) == (True, False)


def test_a_log_of_one_byte_parts_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_log, "LOG_HEAD", 3)
    monkeypatch.setattr(kube_log, "LOG_TAIL", 3)
    log = Log()
    for byte in b"0123456789":
        log.add(bytes([byte]))
    assert log.text() == "012\n… 4 bytes left out …\n789"
