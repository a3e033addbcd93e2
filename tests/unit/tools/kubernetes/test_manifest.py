"""Manifests of jobs: named by their call, valid for Kubernetes, and without a value of the playbook in the job."""

import json
import re

import kubernetes_validate
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.tools.base.guard import BadCall
from shared.tools.kubernetes.manifest import Work, job_name, manifests, owned, veiled, whole
from tests.support.calls import call

ALL = {
    "image": "img:1", "serviceAccountName": "runner", "backoffLimit": "2", "activeDeadlineSeconds": 60,
    "ttlSecondsAfterFinished": 300, "cleanup": True,
    "resources": {"requests": {"cpu": 0.5}, "limits": {"memory": "1Gi"}},
    "imagePullPolicy": "Always", "imagePullSecrets": ["pull"], "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}], "workingDir": "/w",
    "securityContext": {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
}
WORK = Work("img:1", ["run"], ["a"], {"A": "value-of-a", "B": {"c": 1}}, {"program.py": "print(1)"})


@pytest.mark.parametrize("version", ["1.27", "1.31", "1.35"])
@pytest.mark.parametrize("settings", [{"image": "img:1"}, ALL])
@pytest.mark.parametrize("work", [WORK, Work("img:1", [], [], {})])
def test_every_manifest_is_one_kubernetes_takes(version: str, settings: dict, work: Work) -> None:
    made = manifests(call({}, key="e/step:1/task/1"), settings, work)
    job = {**made.job, "metadata": {**made.job["metadata"], "uid": "u"}}
    for each in (made.job, *(owned(part, job) for part in made.parts.values())):
        kubernetes_validate.validate(each, version, strict=True)
    assert "value-of-a" not in json.dumps(made.job)
    assert bool(made.parts) == made.job["spec"].get("suspend", False)


@given(st.text(max_size=120))
def test_any_key_gives_a_name_and_labels_kubernetes_takes(key: str) -> None:
    made = manifests(call({}, key=key), {"image": "i"}, Work("i", [], [], {}))
    assert len(made.name) <= 63
    assert re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", made.name)
    for value in made.job["metadata"]["labels"].values():
        assert re.fullmatch("[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", value)


def test_the_name_is_the_call_s() -> None:
    assert job_name("e/s:1/load_it/1") == job_name("e/s:1/load_it/1")
    assert job_name("e/s:1/load_it/1") != job_name("e/s:1/load_it/2")
    assert job_name("e/s:1/Load it!/1").startswith("noetl-load-it-")


def test_words_of_a_task_that_reads_the_keychain_become_variables() -> None:
    plain = call({})
    assert veiled(plain, ["a", "b"], "ARG") == (["a", "b"], {})
    secret = replace(plain, secrets={"x": {"y": "hidden-value"}})
    assert veiled(secret, ["-p", "$(HOME)", "$(A)hidden-value"], "ARG") == (
        ["$(NOETL_ARG_0)", "$(HOME)", "$(NOETL_ARG_2)"],
        {"NOETL_ARG_0": "-p", "NOETL_ARG_2": "$(A)hidden-value"})


def test_a_job_ends_by_itself_some_time_after_its_call() -> None:
    made = manifests(call({}, timeout_s=12.3), {"image": "i"}, Work("i", [], [], {}))
    assert made.job["spec"]["activeDeadlineSeconds"] == 13 + 60


@pytest.mark.parametrize("wrong", ["x", -1, 1.5, True, 2**31, "²"])
def test_a_number_is_a_whole_one(wrong: object) -> None:
    with pytest.raises(BadCall):
        whole({"n": wrong}, "n", 0, 0)
