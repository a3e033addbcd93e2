"""Whom a job is run as: the credential of the task, or the account of the worker's own pod, and nothing else."""

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest

from shared.tools.base.contract import ToolOptions
from shared.tools.base.guard import BadCall
from shared.tools.kubernetes import access as kube_access
from shared.tools.kubernetes.container_tool import ContainerTool
from shared.tools.kubernetes.job_tool import Jobs
from tests.support.calls import call
from tests.support.servers.kube import NAMESPACE, TOKEN, Container, Ended, Kube
from tests.support.servers.tls import untrusted_server_context

CALL = {"runtime": {"image": "good"}}


@pytest.fixture
async def https(tmp_path: Path):
    """A cluster behind a certificate of its own, and that certificate."""
    async def good(_container: Container) -> Ended:
        return Ended(0, b"ran")

    one = Kube()
    one.images["good"] = good
    await one.start(ssl=untrusted_server_context(tmp_path))
    text = (tmp_path / "untrusted.pem").read_text()
    yield one, text[text.index("-----BEGIN CERTIFICATE"):]
    await one.close()


async def run(jobs: Jobs, auth: dict[str, Any] | None, key: str = "e/s:1/t/1"):
    tool = ContainerTool(ToolOptions(), jobs)
    outcome = await tool.run(call(CALL, auth=auth, key=key))
    await tool.close()
    return outcome


async def test_the_account_of_the_pod_is_used_and_its_token_read_again(https, tmp_path: Path, monkeypatch) -> None:
    kube, certificate = https
    account = tmp_path / "account"
    account.mkdir()
    for name, text in (("token", "old\n"), ("ca.crt", certificate), ("namespace", NAMESPACE)):
        (account / name).write_text(text)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(kube.server.port))
    outcome = await run(Jobs(account, 0.05), None)
    assert outcome.error is not None
    assert outcome.error["kind"] == "auth"

    async def rotate(_container: Container) -> Ended:
        (account / "token").write_text("new")
        kube.tokens = {"new"}
        return Ended(0, b"ran")

    kube.images["good"], kube.tokens = rotate, {TOKEN}
    (account / "token").write_text(TOKEN)
    outcome = await run(Jobs(account, 0.05), None)
    assert (outcome.error, outcome.result["output"]) == (None, "ran")


@pytest.mark.parametrize("coded", [False, True])
async def test_a_server_is_trusted_by_the_credential_s_certificate_alone(https, coded: bool) -> None:
    kube, certificate = https
    ca = base64.b64encode(certificate.encode()).decode() if coded else certificate
    server = {"server": f"https://127.0.0.1:{kube.server.port}", "token": TOKEN, "namespace": NAMESPACE}
    assert (await run(Jobs(max_poll_s=0.05), {**server, "ca": ca})).error is None
    outcome = await run(Jobs(max_poll_s=0.05), server, "e/s:1/t/2")
    assert outcome.error is not None
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("tls", False)


def test_a_worker_outside_a_cluster_needs_a_credential(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(BadCall, match="give auth, a credential"):
        kube_access.access(None)


@pytest.mark.parametrize("wrong", [
    {"server": "http://cluster.example:6443"}, {"server": ""}, {"server": "cluster:6443"}, {"server": "https://"},
    {"server": "https://user@cluster"}, {"server": "https://[bad"}, {"token": ""}, {"token": "a\nb"}, {"ca": "none"},
    {"ca": "-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----"},
])
def test_a_credential_that_cannot_be_used_safely_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(BadCall):
        kube_access.access({"server": "https://cluster:6443", "token": "abcd", **wrong})


def test_a_server_without_a_certificate_is_checked_by_those_of_the_system() -> None:
    found = kube_access.access({"server": "https://cluster:6443/", "token": "abcd"})
    assert (found.server, found.at(None), found.at("other")) == ("https://cluster:6443", "default", "other")
    assert found.tls is not None
    assert found.tls.verify_mode is ssl.CERT_REQUIRED
    assert found.tls.check_hostname
