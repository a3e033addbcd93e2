"""Ctrl-C: it is said at once what becomes of the work, and that is what becomes of it. What `up` says is what works."""

import json
import signal
import subprocess
import time
from pathlib import Path

from services.cli.console import exits
from tests.support.cli import COMMAND, Cli, Up, environment
from tests.support.processes import children, running
from tests.support.waiting import wait_until

AT_ONCE_S = 3.0  # of a busy machine
WAITS = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waits, path: here/waits}
workflow:
  - {step: start, tool: {kind: signal, signal: go}}
"""


def interrupted(folder: Path, *args: str, when: str) -> tuple[int, str, float]:
    """Exit code, stderr, and after how many seconds it was said."""
    process = subprocess.Popen([*COMMAND, *args], cwd=folder, env=environment(), text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said: list[str] = []
    while when not in "".join(said):
        line = process.stderr.readline()
        assert line, said
        said.append(line)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    while "interrupted" not in said[-1]:
        line = process.stderr.readline()
        assert line, said
        said.append(line)
    after = time.monotonic() - began
    rest = process.communicate(timeout=60)[1]
    return process.returncode, said[-1] + rest, after


def test_whoever_waits_hears_that_the_execution_goes_on(up: Up, cli: Cli) -> None:
    (up.folder / "waits.yaml").write_text(WAITS)
    assert cli("register", "waits.yaml", cwd=up.folder).returncode == exits.OK
    code, said, after = interrupted(up.folder, "execute", "here/waits", "--wait", when="running")
    assert code == exits.INTERRUPTED
    execution = said.split("; ")[1].split()[0]
    assert said == f"noetlctl: interrupted; {execution} goes on (noetlctl watch {execution})\n"
    assert after < AT_ONCE_S
    assert json.loads(cli("get", execution, "-o", "json", cwd=up.folder).stdout)["status"] == "running"
    code, said, _ = interrupted(up.folder, "watch", execution, when="running")
    assert (code, f"{execution} goes on" in said) == (exits.INTERRUPTED, True)
    assert cli("signal", execution, "go", cwd=up.folder).returncode == exits.OK
    assert cli("watch", execution, cwd=up.folder).returncode == exits.OK


def test_a_run_says_whether_its_execution_is_kept(tmp_path: Path) -> None:
    (tmp_path / "waits.yaml").write_text(WAITS)
    code, said, after = interrupted(tmp_path, "run", "waits.yaml", when="running")
    assert (code, after < AT_ONCE_S) == (exits.INTERRUPTED, True)
    assert "stopping the stack of this run, and the execution with it" in said


def test_two_interrupts_of_a_run_are_one_and_leave_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "waits.yaml").write_text(WAITS)
    (tmp_path / "temporary").mkdir()
    process = subprocess.Popen([*COMMAND, "run", "waits.yaml"], cwd=tmp_path, text=True, stdout=subprocess.DEVNULL,
                               env=environment(TMPDIR=str(tmp_path / "temporary")), stderr=subprocess.PIPE)
    assert process.stderr is not None
    while "running" not in (line := process.stderr.readline()):
        assert line, "it has ended"
    below = children(process.pid)
    assert below, "its broker"
    process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == exits.INTERRUPTED
    assert [pid for pid in below if running(pid)] == []
    assert list((tmp_path / "temporary").iterdir()) == []


def test_up_says_what_works_in_its_folder(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "waits.yaml").write_text(WAITS)
    (tmp_path / "a.yaml").write_text("kind: Schedule\n")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "s.py").write_text("result = 'from a script'\n")
    (tmp_path / "script.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: s, path: here/script}\nworkflow:\n"
        "  - {step: start, tool: {kind: python, script: {uri: s.py, source: {type: file}}}}\n")
    stack = Up(tmp_path, NOETL_SCRIPTS="scripts")
    try:
        stack.wait()
        said = wait_until(stack.log.read_text, "it says how to go on", so=lambda text: "Ctrl-C" in text)
        assert "  noetlctl register script.yaml\n  noetlctl execute here/script --wait\n" in said
        assert "its password: noetlctl context show --password)" in said
        assert cli("context", "show", "--password").stdout.strip() == stack.context["users"]["admin"]
        assert cli("register", "script.yaml").returncode == exits.OK
        assert cli("execute", "here/script", "--wait").stdout == "from a script\n"
        stack.process.send_signal(signal.SIGINT)
        wait_until(stack.log.read_text, "it says that it stops", so=lambda text: "interrupted; stopping the" in text)
    finally:
        assert stack.stop() == exits.OK
