"""What would change nothing is refused, with an exit code of its own: no command is a silent no-op. And a failure is
shown with all that the log knows of it."""

import os
import signal
from collections.abc import Callable

import pytest

from services.cli.console import exits
from tests.support.cli import Result, Up, inside
from tests.support.playbooks import head
from tests.support.processes import children
from tests.support.waiting import wait_until

BOOKS = {
    "quiet": "workload: {url: x}\nworkflow:\n  - {step: start, tool: {kind: noop}}\n",
    "asks": "workflow:\n  - step: start\n    tool:\n      kind: signal\n      signal: approval\n      schema:\n"
            "        {type: object, required: [approved], properties: {approved: {type: boolean}}}\n",
    "later": "workflow:\n  - step: start\n    tool: {kind: signal, signal: first}\n"
             "    next: {arcs: [{step: then}]}\n  - {step: then, tool: {kind: signal, signal: second}}\n",
    "breaks": "workflow:\n  - step: start\n    tool:\n      kind: python\n      auth: api\n      code: |\n"
              "        def price(row):\n            return row['cost']\n        print('token', auth['token'])\n"
              "        result = price({'token': auth['token']})\n",
}
Ctl = Callable[..., Result]


@pytest.fixture
def ctl(up: Up) -> Ctl:
    def call(*args: str) -> Result:
        return inside(*args, cwd=up.folder)

    if not (up.folder / "quiet.yaml").exists():
        for name, text in BOOKS.items():
            (up.folder / f"{name}.yaml").write_text(head(name, f"refused/{name}") + text)
        call("credential", 'api={"token": "open-sesame-77"}')
        done = call("register", *(f"{name}.yaml" for name in BOOKS))
        assert done.returncode == 0, done.stderr
    return call


def waiting(ctl: Ctl, path: str) -> str:
    execution = ctl("execute", path).stdout.strip()
    wait_until(lambda: "wait.signal" in ctl("why", execution).stdout, "it waits for a signal", 60)
    return execution


def test_an_unknown_path_is_named_and_leaves_nothing_behind(ctl: Ctl) -> None:
    said = ctl("execute", "refused/quite")
    assert (said.returncode, said.stdout) == (exits.NOT_FOUND, "")
    assert "did you mean refused/quiet?" in said.stderr
    said = ctl("execute", "refused/quiet", "--version", "7")
    assert (said.returncode, "has version" in said.stderr) == (exits.NOT_FOUND, True)
    assert "refused/quite" not in ctl("get", "-o", "json").stdout


def test_the_same_key_with_another_payload_is_a_conflict(ctl: Ctl) -> None:
    first = ctl("execute", "refused/quiet", "--id", "order-1", "--set", "url=a")
    again = ctl("execute", "refused/quiet", "--id", "order-1", "--set", "url=a")
    assert (again.returncode, again.stdout) == (0, first.stdout)
    other = ctl("execute", "refused/quiet", "--id", "order-1", "--set", "url=b")
    assert (other.returncode, other.stdout) == (exits.CONFLICT, "")
    assert "another payload" in other.stderr


def test_a_key_that_nothing_reads_is_a_usage_error(ctl: Ctl) -> None:
    said = ctl("execute", "refused/quiet", "--set", "ulr=a")
    assert (said.returncode, "did you mean url?" in said.stderr) == (exits.USAGE, True)


def test_a_signal_that_nobody_waits_for_is_refused_and_so_is_a_payload_that_does_not_fit(ctl: Ctl) -> None:
    execution = waiting(ctl, "refused/asks")
    said = ctl("signal", execution, "aproval", "--set", "approved=true")
    assert (said.returncode, "did you mean approval?" in said.stderr) == (exits.NOT_FOUND, True)
    said = ctl("signal", execution, "approval", "--set", "approved=3")
    assert (said.returncode, "boolean" in said.stderr) == (exits.INVALID, True)
    assert "did not fit" not in ctl("why", execution).stdout
    assert ctl("signal", execution, "approval", "--set", "approved=true").returncode == 0
    assert ctl("watch", execution).returncode == 0


def test_a_signal_that_comes_early_is_taken_and_told(ctl: Ctl) -> None:
    execution = waiting(ctl, "refused/later")
    early = ctl("signal", execution, "second")
    assert (early.returncode, "yet" in early.stderr) == (0, True)
    assert ctl("signal", execution, "first").returncode == 0
    assert ctl("watch", execution).returncode == 0


def test_a_step_that_is_not_there_is_not_found(ctl: Ctl) -> None:
    execution = ctl("execute", "refused/quiet").stdout.strip()
    for command in (["logs", execution, "--step", "strat"], ["rerun", execution, "--from", "strat"]):
        ctl("watch", execution)
        said = ctl(*command)
        assert (said.returncode, said.stdout) == (exits.NOT_FOUND, ""), command
        assert "did you mean start?" in said.stderr


def test_a_failure_is_shown_with_its_traceback_its_output_and_no_secret(ctl: Ctl, up: Up) -> None:
    failed = ctl("execute", "refused/breaks", "--wait")
    assert failed.returncode == exits.FAILED
    line = 1 + (up.folder / "breaks.yaml").read_text().splitlines().index("            return row['cost']")
    execution = next(word for word in failed.stderr.split() if len(word) == 20)
    for text in (failed.stderr, *(ctl(word, execution).stdout for word in ("why", "describe"))):
        assert f"in price (line {line} of the playbook)" in text
        assert "printed: token ***" in text
        assert "KeyError: 'cost'" in text
        assert "sesame" not in text
    logs = ctl("logs", execution).stdout
    assert "return row['cost']" in logs
    assert "return row['cost']" not in ctl("logs", execution, "--printed").stdout


def test_a_request_that_no_router_answers_says_which_execution_it_is(ctl: Ctl, up: Up) -> None:
    router = next(pid for pid, line in children(up.process.pid).items() if "services.router" in line)
    os.kill(router, signal.SIGSTOP)
    try:
        said = ctl("execute", "refused/quiet", "--id", "frozen-1")
    finally:
        os.kill(router, signal.SIGCONT)
    execution = said.stdout.strip()
    assert (said.returncode, len(execution)) == (exits.ERROR, 20)
    assert execution in said.stderr
    assert "--id frozen-1" in said.stderr
    assert ctl("execute", "refused/quiet", "--id", "frozen-1").stdout.strip() == execution
    assert ctl("watch", execution).returncode == 0
