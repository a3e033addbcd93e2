"""`kind: shell`: what a program gets, what it gives, and what happens to its processes."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from shared.dsl.templates.evaluate import render_shell
from shared.tools.base.contract import Printing
from shared.tools.shell import process as shell_process
from shared.tools.shell import tool as shell
from tests.support.calls import call, recorded
from tests.support.processes import children, running
from tests.support.waiting import until


async def _run(tool, cmds: Any, _timeout: float = 20.0, **config: Any):
    return await tool.run(call({"cmds": cmds, **config}, timeout_s=_timeout))


def _noted(file: Path) -> list[int]:
    return [int(pid) for pid in file.read_text().split()] if file.exists() else []


async def _all_end(*pids: int) -> None:
    """Soon: the kernel takes a moment to end what is killed."""
    await until(lambda: [pid for pid in pids if running(pid)], "all have ended", 2.0, so=lambda left: not left)


async def _pids(file: Path, count: int) -> list[int]:
    return await until(lambda: _noted(file), f"{count} ids in {file}", 4.0, so=lambda found: len(found) == count)


def _worker(*args: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WORKER, *args])


async def test_a_program_gives_its_exit_code_and_what_it_says(opened) -> None:
    outcome = await _run(opened("shell"), "echo out\necho err >&2")
    assert (outcome.status, outcome.result) == ("ok", {"exit_code": 0, "stdout": "out\n", "stderr": "err\n"})


@pytest.mark.parametrize("key", ["cmds", "commands", "command", "cmd"])
async def test_every_name_of_the_program_is_taken(opened, key) -> None:
    assert (await opened("shell").run(call({key: "echo a"}))).result["stdout"] == "a\n"


async def test_the_programs_of_a_list_share_one_shell_and_stop_at_the_first_that_fails(opened) -> None:
    tool = opened("shell")
    outcome = await _run(tool, ["v=1; cd /", "echo $v; pwd  # done", "cat <<END\nlast\nEND"])
    assert outcome.result["stdout"] == "1\n/\nlast\n"
    outcome = await _run(tool, ["echo one", "false\ntrue", "echo two; (exit 7)", "echo three"])
    assert (outcome.result["stdout"], outcome.error["exit_code"]) == ("one\ntwo\n", 7)


async def test_a_failed_program_tells_its_exit_code_and_last_words(opened) -> None:
    outcome = await _run(opened("shell"), "echo partly\necho went wrong >&2\nexit 3")
    assert outcome.error == {"kind": "shell", "message": "exit code 3: went wrong", "retryable": False, "exit_code": 3}
    assert outcome.result["stdout"] == "partly\n"


@pytest.mark.parametrize(("program", "code"), [("kill -9 $$", 137), ("no-such-command", 127), ("if", 2)])
async def test_other_ends_have_the_code_a_shell_would_say(opened, program, code) -> None:
    assert (await _run(opened("shell"), program)).error["exit_code"] == code


async def test_exit_codes_that_are_no_error(opened) -> None:
    tool = opened("shell")
    outcome = await _run(tool, "exit 100", exit_codes=[0, 100])
    assert (outcome.status, outcome.result["exit_code"]) == ("ok", 100)
    assert (await _run(tool, "true", exit_codes=[1])).error["exit_code"] == 0


async def test_bash_when_it_is_asked_for_or_meant(opened) -> None:
    tool = opened("shell")
    assert (await _run(tool, "if ! command -v sh &> /dev/null; then exit 1; fi")).status == "ok"
    assert (await _run(tool, "echo ${BASH_VERSION:-other}")).result["stdout"] == "other\n"
    assert (await _run(tool, "a=(x y); echo ${a[1]}", shell="bash")).result["stdout"] == "y\n"
    assert (await _run(tool, "echo", shell="python")).error["kind"] == "config"


async def test_values_reach_the_program_as_data(opened) -> None:
    scope = {"x": "$(echo no); 'y' \"z\"", "n": 3}
    scripts = render_shell(["echo \"1 {{ x }}\"", "echo {{ n }} {{ x }}"], scope)
    outcome = await _run(opened("shell"), scripts)
    assert outcome.result["stdout"] == f"1 {scope['x']}\n3 {scope['x']}\n"


async def test_variables_of_env_args_and_the_credential(opened) -> None:
    config = {"cmd": "echo $A $B $C $AUTH_USER_NAME", "env": {"A": True, "B": [1]}, "args": {"A": "x", "C": None}}
    outcome = await opened("shell").run(call(config, auth={"user-name": "me"}))
    assert outcome.result["stdout"] == "true [1] me\n"


@pytest.mark.parametrize(("env", "word"), [
    ({"a b": 1}, "a b"), ({"A": "x\0"}, "NUL"), ({"A": "x" * 140_000}, "too large"), ([1], "mapping"),
])
async def test_a_variable_that_cannot_be_is_a_mistake(opened, env, word) -> None:
    outcome = await _run(opened("shell"), "true", env=env)
    assert outcome.error["kind"] == "config"
    assert word in outcome.error["message"]


async def test_of_the_worker_a_program_sees_only_what_is_harmless(opened, monkeypatch) -> None:
    monkeypatch.setenv("NOETL_NATS_PASSWORD", "hidden")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("LC_TIME", "C")
    said = (await _run(opened("shell"), "env")).result["stdout"]
    assert "hidden" not in said
    assert "PATH=" in said
    assert "LC_TIME=C" in said


async def test_secrets_are_blanked_out_of_what_it_says(opened) -> None:
    scripts = render_shell("echo {{ token }}; echo {{ token }} >&2; exit 1", {"token": "tok-secret"})
    given = replace(call({"cmd": scripts}, auth={"password": "pass-word"}), secrets={"k": {"token": "tok-secret"}})
    outcome = await opened("shell").run(given)
    assert outcome.result["stdout"] == "tok-secret\n"
    assert "tok-secret" not in repr(recorded(outcome, given))
    given = call({"cmd": "echo $AUTH_PASSWORD"}, auth={"password": "pass-word"})
    shown = recorded(await opened("shell").run(given), given)
    assert shown.result["stdout"] == "***\n"


async def test_it_runs_in_a_folder_of_its_own_unless_one_is_given(opened, tmp_path) -> None:
    tool = opened("shell")
    folder = (await _run(tool, "touch left; pwd")).result["stdout"].strip()
    assert folder.startswith(str(tmp_path))
    assert not os.access(folder, os.F_OK)
    for key in ("cwd", "working_dir"):
        assert (await _run(tool, "pwd", **{key: "/"})).result["stdout"] == "/\n"
    assert (await _run(tool, "pwd", cwd="/no/such/folder")).error["kind"] == "config"


@pytest.mark.parametrize(("given", "read"), [
    ("a\nb", "a\nb"), ({"a": [1]}, '{"a":[1]}'), (None, ""), ("é" * 200_000, "é" * 200_000),
])
async def test_stdin_is_read(opened, given, read) -> None:
    assert (await _run(opened("shell"), "cat", stdin=given)).result["stdout"] == read


async def test_json_is_parsed_when_asked_for(opened) -> None:
    tool = opened("shell")
    assert (await _run(tool, "echo '{\"a\": 1}'", output="json")).result["data"] == {"a": 1}
    assert "data" not in (await _run(tool, "echo '{\"a\": 1}'")).result
    assert (await _run(tool, "echo no", output="json")).error["kind"] == "decode"


async def test_what_it_says_is_bounded_and_keeps_both_ends(opened) -> None:
    tool = opened("shell")
    said = (await _run(tool, "echo first; yes | head -c 3000000; echo last")).result["stdout"]
    assert said.startswith("first\n")
    assert said.endswith("last\n")
    assert "bytes left out" in said
    assert len(said) < shell_process.OUTPUT_LIMIT + 100
    cut = await _run(tool, "yes | head -c 3000000", output="json")
    assert cut.error["kind"] == "limit"


async def test_a_program_over_the_limit_is_refused(opened) -> None:
    assert (await _run(opened("shell"), ":" + " " * shell.SCRIPT_LIMIT)).error["kind"] == "limit"


@pytest.mark.parametrize("cmds", [None, "", "  ", [], [""], [1], {"a": 1}, "a\0b"])
async def test_a_program_that_is_none_is_a_mistake(opened, cmds) -> None:
    assert (await _run(opened("shell"), cmds)).error["kind"] == "config"


async def test_a_timeout_ends_all_it_started_and_keeps_what_it_said(opened, tmp_path) -> None:
    pids = tmp_path / "pids"
    outcome = await _run(opened("shell"), f"echo begun; sleep 60 & echo $$ $! > {pids}; wait", _timeout=1.0)
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("timeout", True)
    assert outcome.result["stdout"] == "begun\n"
    await _all_end(*await _pids(pids, 2))


async def test_a_program_may_clean_up_before_it_is_killed(opened, monkeypatch) -> None:
    tool = opened("shell")
    outcome = await _run(tool, "trap 'echo bye; exit' TERM; sleep 60 & wait", _timeout=1.0)
    assert outcome.result["stdout"] == "bye\n"
    monkeypatch.setattr(shell_process, "TERM_GRACE_S", 0.3)
    started = time.monotonic()
    outcome = await _run(tool, "trap '' TERM; while :; do sleep 0.1; done", _timeout=0.3)
    assert outcome.error["kind"] == "timeout"
    assert time.monotonic() - started < 2


async def test_what_is_left_running_ends_with_the_program(opened, tmp_path) -> None:
    pids = tmp_path / "pids"
    started = time.monotonic()
    outcome = await _run(opened("shell"), f"sleep 60 & echo $! > {pids}")
    assert outcome.status == "ok"
    assert time.monotonic() - started < 5
    await _all_end(*await _pids(pids, 1))


async def test_a_daemon_ends_with_its_program(opened, tmp_path) -> None:
    """It has left the session, and its parent has ended."""
    pids = tmp_path / "pids"
    outcome = await _run(opened("shell"), f"setsid sh -c 'sh -c \"echo \\$\\$ > {pids}; exec sleep 60\" &'; "
                                          f"until test -s {pids}; do sleep 0.02; done")
    assert outcome.status == "ok"
    await _all_end(*await _pids(pids, 1))


async def test_two_programs_do_not_end_each_other_s_processes(opened, tmp_path) -> None:
    tool, pids = opened("shell"), tmp_path / "pids"
    long = asyncio.create_task(_run(tool, f"sleep 60 & echo $! > {pids}; sleep 2; kill -0 $! && echo there"))
    await _pids(pids, 1)
    await _run(tool, "setsid sleep 60 &")
    assert (await long).result["stdout"] == "there\n"


async def test_a_keeper_that_is_killed_is_a_crash_of_its_program_and_is_replaced(opened, tmp_path) -> None:
    tool, pids = opened("shell"), tmp_path / "pids"
    outcome = await _run(tool, f"setsid sleep 60 & echo $$ $! > {pids}; kill -9 $PPID; sleep 60")
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("crash", True)
    assert not running((await _pids(pids, 2))[0])
    (keeper,) = [pid for pid, line in children(os.getpid()).items() if "shared.tools.shell.warden" in line]
    os.kill(keeper, signal.SIGKILL)
    await _all_end(keeper)
    assert (await _run(tool, "echo again")).result["stdout"] == "again\n"


WORKER = """
import asyncio, sys
from shared.tools.base.contract import ToolOptions
from shared.tools.shell.tool import ShellTool
from tests.support.calls import call, recorded
asyncio.run(ShellTool(ToolOptions(temp_folder=sys.argv[1])).run(
    call({"cmd": "sleep 60 & echo $$ $! > " + sys.argv[2] + "; wait"}, timeout_s=60)))
"""


async def test_a_worker_that_is_killed_takes_its_programs_with_it(tmp_path) -> None:
    pids = tmp_path / "pids"
    worker = _worker(str(tmp_path), str(pids))
    try:
        found = await _pids(pids, 2)
        await asyncio.sleep(0.1)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        await _all_end(*found)
    finally:
        worker.kill()
        worker.wait()


async def test_nothing_is_left_open(opened) -> None:
    tool = opened("shell")
    await _run(tool, "true")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await _run(tool, "echo a")
        await _run(tool, "sleep 60", _timeout=0.05)
    assert len(os.listdir("/proc/self/fd")) <= before


async def test_a_call_that_is_cut_short_leaves_what_it_said(opened) -> None:
    given = replace(call({"cmds": "trap 'echo bye; exit' TERM; echo begun; sleep 60 & wait"}), printing=Printing())
    running_call = asyncio.create_task(opened("shell").run(given))
    begun = {"stdout": "begun\n", "stderr": ""}
    await until(lambda: given.printing.so_far and given.printing.so_far(100) == begun, "it is heard while it runs")
    running_call.cancel()
    await asyncio.wait({running_call})
    said = {"stdout": "begun\nbye\n", "stderr": ""}
    assert (running_call.cancelled(), given.printing.stopped.result) == (True, said)


async def test_the_end_of_a_stream_is_known_while_it_grows() -> None:
    stream = shell_process.Capture(20)
    for part, end in ((b"abc", "abc"), (b"defghij", "ghij"), (b"kl", "ijkl"), (b"m" * 50, "mmmm")):
        stream.data_received(part)
        assert stream.end(4) == end
