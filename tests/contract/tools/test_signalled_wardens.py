"""Tasks that signal the processes that keep them: what they started ends all the same, with the call or the worker."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shared.tools.base.contract import ToolOptions
from shared.tools.registry import open_tool
from tests.support.calls import call
from tests.support.processes import gone, written

# Each writes the ids of its daemon, its parent and that one's parent, and signals one of the latter two.
PYTHON = """
import os, subprocess, time
def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
daemon = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=-3, stderr=-3)
keepers = [os.getppid(), parent(os.getppid()), parent(parent(os.getppid()))]
with open(file + ".new", "w") as out:
    print(daemon.pid, *keepers[:2], file=out)
os.rename(file + ".new", file)
for which in aims:
    os.kill(keepers[which], how)
time.sleep(lasts)
result = "said"
"""
HOLDS = """
import os
held = []
for keeper in [os.getppid()]:
    for name in os.listdir(f"/proc/{keeper}/fd"):
        try:
            held.append(os.open(f"/proc/{keeper}/fd/{name}", os.O_WRONLY))
        except OSError:
            pass
"""
SHELL = """
setsid sleep 600 </dev/null >/dev/null 2>&1 &
above=$(sed 's/.*) . //; s/ .*//' /proc/$PPID/stat)
echo $! $PPID $above >$file.new; mv $file.new $file
sleep 0.2
for which in $aims; do case $which in 0) kill -$how $PPID;; 1) kill -$how $above;; esac; done
sleep $lasts
echo said
"""
SIGNALS = [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, signal.SIGINT]
AIMS = {"the parent": [0], "the one above it": [1]}
BOTH = [0, 1]
WORKER = """
import asyncio, sys
from shared.tools.base.contract import Call, ToolOptions
from shared.tools.registry import open_tool
kind, config, folder = sys.argv[1], eval(sys.argv[2]), sys.argv[3]

async def work():
    tool = open_tool(kind, ToolOptions(temp_folder=folder))
    await tool.run(Call(config, {}, None, "k", 60.0))
    await asyncio.sleep(600)

async def alone(bus, settings, **given):
    await work()

if sys.argv[4:]:
    from shared.runtime.service import strays
    from shared.tools.base import keepers
    asyncio.run(strays.ended(alone, lambda: keepers.pids)(None, None, clock=None, stop=None, ready=None))
asyncio.run(work())
"""
SERVICE = """
import asyncio, pathlib, sys
from shared.runtime.embedded import child
from shared.runtime.service import strays

async def keep(bus, settings, **given):
    kept = child.Child("worker", [sys.executable, *sys.argv[2:]], {}, {}, pathlib.Path(sys.argv[1]))
    await kept.life()
    await asyncio.sleep(600)

asyncio.run(strays.ended(keep, child.own)(None, None, clock=None, stop=None, ready=None))
"""


def _config(kind: str, file: Path, how: int, aims: list[int], lasts: float) -> dict[str, Any]:
    args: dict[str, Any] = {"file": str(file), "how": int(how), "lasts": lasts}
    if kind == "python":
        return {"code": PYTHON, "args": {**args, "aims": aims}}
    return {"cmds": SHELL, "args": {**args, "aims": " ".join(map(str, aims))}}


@pytest.fixture
async def opened(tmp_path: Path):
    tools = []

    def one(kind: str) -> Any:
        tools.append(open_tool(kind, ToolOptions(python_processes=1, temp_folder=str(tmp_path))))
        return tools[-1]

    yield one
    for tool in tools:
        await tool.close()


async def _says(tool: Any, kind: str) -> Any:
    config = {"code": "result = 'again'"} if kind == "python" else {"cmds": "printf again"}
    outcome = await tool.run(call(config))
    return outcome.result["stdout"] if kind == "shell" and outcome.result else outcome.result


@pytest.mark.parametrize("how", SIGNALS)
@pytest.mark.parametrize("kind", ["python", "shell"])
async def test_a_call_that_signals_its_parent_fails_and_leaves_nothing(opened, tmp_path, kind, how) -> None:
    tool, file = opened(kind), tmp_path / "pids"
    outcome = await tool.run(call(_config(kind, file, how, [0], 20.0), timeout_s=60.0))
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("crash", True)
    daemon, warden, _ = map(int, written(file).split())
    assert await asyncio.to_thread(gone, daemon)
    assert await asyncio.to_thread(gone, warden)
    assert await _says(tool, kind) == "again"


@pytest.mark.parametrize("how", SIGNALS)
async def test_a_python_call_that_signals_its_parent_last_of_all_fails_too(opened, tmp_path, how) -> None:
    tool, file = opened("python"), tmp_path / "pids"
    outcome = await tool.run(call(_config("python", file, how, [0], 0.0), timeout_s=60.0))
    assert (outcome.status, outcome.error["kind"]) == ("error", "crash")
    assert await asyncio.to_thread(gone, int(written(file).split()[0]))


ONLY_SIGNALS = """
import os
def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
os.kill([os.getppid(), parent(os.getppid())][aim], how)
result = os.getpid()
"""


@pytest.mark.parametrize("how", SIGNALS)
@pytest.mark.parametrize("aims", AIMS)
async def test_no_other_call_fails_when_a_call_signals_a_warden_and_does_nothing_else(opened, aims, how) -> None:
    tool, args = opened("python"), {"aim": AIMS[aims][0], "how": int(how)}
    for _ in range(5):
        guilty = await tool.run(call({"code": ONLY_SIGNALS, "args": args}, timeout_s=60.0))
        others = [await tool.run(call({"code": "import os, time\ntime.sleep(0.02)\nresult = os.getpid()"}))
                  for _ in range(2)]
        assert [outcome.error for outcome in others] == [None, None]
        assert (guilty.error or {}).get("kind") == "crash" or guilty.result not in [one.result for one in others]


@pytest.mark.parametrize("how", SIGNALS)
@pytest.mark.parametrize("kind", ["python", "shell"])
async def test_a_call_that_signals_the_one_above_its_parent_leaves_nothing(opened, tmp_path, kind, how) -> None:
    tool, file = opened(kind), tmp_path / "pids"
    await tool.run(call(_config(kind, file, how, [1], 0.5), timeout_s=60.0))
    daemon, warden, _ = map(int, written(file).split())
    assert await asyncio.to_thread(gone, daemon)
    assert await asyncio.to_thread(gone, warden)
    assert await _says(tool, kind) == "again"


@pytest.mark.parametrize("how", SIGNALS)
@pytest.mark.parametrize("aims", AIMS)
@pytest.mark.parametrize("kind", ["python", "shell"])
def test_nothing_is_left_when_the_worker_is_killed_too(tmp_path, kind, aims, how) -> None:
    file = tmp_path / "pids"
    config = _config(kind, file, how, AIMS[aims], 600.0)
    worker = subprocess.Popen([sys.executable, "-c", WORKER, kind, repr(config), str(tmp_path)])
    try:
        pids = list(map(int, written(file).split()))
    finally:
        worker.kill()
        worker.wait()
    assert [pid for pid in pids if not gone(pid)] == []


@pytest.mark.parametrize("kind", ["python", "shell"])
async def test_a_call_that_stops_all_who_keep_it_leaves_nothing(opened, tmp_path, kind) -> None:
    tool, file = opened(kind), tmp_path / "pids"
    await tool.run(call(_config(kind, file, signal.SIGSTOP, BOTH, 0.5), timeout_s=60.0))
    daemon, warden, _ = map(int, written(file).split())
    assert await asyncio.to_thread(gone, daemon)
    assert await asyncio.to_thread(gone, warden)
    assert await _says(tool, kind) == "again"


@pytest.mark.parametrize("how", SIGNALS)
@pytest.mark.parametrize("kind", ["python", "shell"])
def test_a_worker_ends_what_lost_all_who_kept_it(tmp_path, kind, how) -> None:
    file = tmp_path / "pids"
    config = _config(kind, file, how, BOTH, 600.0)
    worker = subprocess.Popen([sys.executable, "-c", WORKER, kind, repr(config), str(tmp_path), "alone"])
    try:
        daemon, warden, _ = map(int, written(file).split())
        assert how == signal.SIGSTOP or (gone(daemon) and gone(warden))
    finally:
        worker.kill()
        worker.wait()
    assert gone(daemon)


@pytest.mark.parametrize("kind", ["python", "shell"])
def test_the_service_above_ends_what_a_killed_worker_kept(tmp_path, kind) -> None:
    """The code kills its worker too, before anybody can see to it."""
    file = tmp_path / "pids"
    config = _config(kind, file, signal.SIGKILL, [2, 1, 0] if kind == "python" else BOTH, 600.0)
    worker = ["-c", WORKER, kind, repr(config), str(tmp_path)]
    service = subprocess.Popen([sys.executable, "-c", SERVICE, str(tmp_path / "log"), *worker])
    try:
        daemon, warden, _ = map(int, written(file).split())
        assert gone(daemon)
        assert gone(warden)
    finally:
        service.kill()
        service.wait()


async def test_code_that_holds_the_lifeline_of_its_warden_ends_all_the_same(opened, tmp_path) -> None:
    """A pipe could be opened for writing in /proc: nobody would see that the worker let go of it."""
    tool, file = opened("python"), tmp_path / "pids"
    outcome = await tool.run(call({"code": HOLDS + PYTHON, "args": {
        "file": str(file), "how": 0, "lasts": 600, "aims": []}}, timeout_s=5.0))
    assert outcome.error["kind"] == "timeout"
    assert [pid for pid in map(int, written(file).split()[:2]) if not await asyncio.to_thread(gone, pid)] == []
