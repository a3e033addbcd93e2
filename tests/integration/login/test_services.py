"""A broker of one's own: certificates on both sides, credentials that expire every few seconds, an issuer that is
replaced. The services read their files again whenever they connect, and the work goes on."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from services.cli.console import exits
from services.cli.stack import context
from services.cli.stack.context import Context
from shared.runtime.service.main import BAD_SETTINGS
from tests.support import cli
from tests.support.paths import ROOT
from tests.support.servers.certificates import Issuer
from tests.support.servers.configured_nats import ConfiguredNats
from tests.support.servers.operator_nats import Operator
from tests.support.waiting import wait_until

SERVICES = ("router", "scheduler", "worker")
CREDS_S, RENEW_S = 5, 1.0
ITERATIONS = 24
PLAYBOOK = f"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: renewed, path: tests/renewed}}
workflow:
  - step: start
    loop: {{in: "{{{{ range({ITERATIONS}) }}}}", iterator: i, spec: {{mode: parallel, max_in_flight: 4}}}}
    tool: {{kind: shell, command: "sleep 0.4; echo done"}}
"""


class Broker:
    """In operator mode, with TLS for both sides. Its files are where `environ` says."""

    def __init__(self, folder: Path) -> None:
        self._files, self._operator, self._over = folder / "files", Operator(), threading.Event()
        self._creds = folder / "user.creds"
        self._renewing = threading.Thread(target=self._renew)
        self._operator.write_creds(self._creds, "noetl", seconds=CREDS_S)
        self.server = ConfiguredNats(folder / "server", self._config())

    def _config(self) -> dict[str, object]:
        issuer = Issuer(self._files)
        certificate, key = issuer.issue("server")
        issuer.issue("client")
        tls = {"cert_file": str(certificate), "key_file": str(key), "ca_file": str(issuer.ca), "verify": True}
        return {**self._operator.config, "tls": tls}

    def _renew(self) -> None:
        while not self._over.wait(RENEW_S):
            self._operator.write_creds(self._creds, "noetl", seconds=CREDS_S)

    def replace_issuer(self) -> None:
        self.server.configure(self._config())
        self.server.restart()

    @property
    def context(self) -> Context:
        """The first of its addresses is nobody's."""
        return Context(
            f"tls://127.0.0.1:1,tls://{self.server.address}", {}, partitions=2, user="",
            nats_creds_file=str(self._creds), nats_ca_file=str(self._files / "ca.crt"),
            nats_cert_file=str(self._files / "client.crt"), nats_key_file=str(self._files / "client.key"),
        )

    @property
    def environ(self) -> dict[str, str]:
        keys = ("nats_url", "partitions", "nats_creds_file", "nats_ca_file", "nats_cert_file", "nats_key_file")
        return {f"NOETL_{key.upper()}": str(getattr(self.context, key)) for key in keys}

    def __enter__(self) -> "Broker":
        self.server.start()
        self._renewing.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._renewing.join()
        self.server.stop()


@contextmanager
def services(folder: Path, environ: dict[str, str]) -> Iterator[list["subprocess.Popen[bytes]"]]:
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for name in SERVICES:
            with (folder / f"{name}.log").open("wb") as log:
                processes.append(subprocess.Popen(
                    [sys.executable, "-m", f"services.{name}"], cwd=ROOT, env=cli.environment(**environ), stdout=log,
                    stderr=log))
        yield processes
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(40)


def test_nothing_is_lost_while_credentials_and_certificates_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "renewed.yaml").write_text(PLAYBOOK)
    with Broker(tmp_path) as broker:
        file = context.write(tmp_path, broker.context)

        def noetlctl(*args: str) -> str:
            done = cli.inside(*args, "--context", str(file), cwd=tmp_path)
            assert done.returncode == exits.OK, (args, done.stdout, done.stderr)
            return done.stdout

        noetlctl("admin", "bootstrap")
        noetlctl("register", "renewed.yaml")
        with services(tmp_path, broker.environ) as processes:
            execution = json.loads(noetlctl("execute", "tests/renewed", "-o", "json"))["execution_id"]
            wait_until(lambda: _done(noetlctl("events", execution, "-o", "json")), "some are done",
                       60, so=lambda done: done >= ITERATIONS // 8)
            broker.replace_issuer()
            said = json.loads(noetlctl("watch", execution, "-o", "json"))
            assert (said["status"], [each.poll() for each in processes]) == ("completed", [None] * len(SERVICES))
            assert _done(noetlctl("events", execution, "-o", "json")) == ITERATIONS
            noetlctl("verify", "--all")
        logs = "".join((tmp_path / f"{name}.log").read_text() for name in SERVICES)
    assert [process.returncode for process in processes] == [0] * len(SERVICES)
    assert "SUA" not in logs


def _done(events: str) -> int:
    return sum(each["event_type"] == "loop.iteration.done" for each in json.loads(events))


def test_a_service_with_a_file_that_is_not_there_says_so_and_does_not_start(tmp_path: Path) -> None:
    environ = cli.environment(NOETL_NATS_CREDS_FILE=str(tmp_path / "none.creds"))
    done = subprocess.run([sys.executable, "-m", "services.router"], cwd=ROOT, env=environ, capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == BAD_SETTINGS
    assert "NOETL_NATS_CREDS_FILE" in done.stderr
