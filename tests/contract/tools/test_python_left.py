"""`kind: python`: one call, one answer; what a call leaves behind is not the next one's."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
import uvloop

from shared.tools.base.contract import ToolOptions
from shared.tools.python.child import Reply, Request
from shared.tools.python.pool import Crashed, Pool
from shared.tools.registry import open_tool
from tests.support.calls import call
from tests.support.processes import gone, running, written

PID = "import os\nresult = os.getpid()"
DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(file + ".new", "w") as out:
            out.write(str(os.getpid()))
        os.rename(file + ".new", file)
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists(file):
    time.sleep(0.01)
"""
TIMER = """
import ctypes, signal
event, timer = (ctypes.c_int * 16)(0, 0, signal.SIGUSR1, 0), ctypes.c_void_p()
assert ctypes.CDLL(None).timer_create(1, event, ctypes.byref(timer)) == 0
"""
FORKS = ["os.fork()", "ctypes.CDLL(None).fork()"]


@pytest.fixture
async def tool(tmp_path: Path):
    """With one process, so that every call would get the one of the call before."""
    tool = open_tool("python", ToolOptions(python_processes=1, temp_folder=str(tmp_path)))
    yield tool
    await tool.close()


async def _run(tool: Any, code: str, timeout_s: float = 20.0, **args: Any) -> Any:
    return await tool.run(call({"code": textwrap.dedent(code), "args": args}, timeout_s=timeout_s))


@pytest.mark.parametrize("fork", FORKS)
async def test_a_copy_of_the_process_answers_nobody(tool, fork) -> None:
    first = await _run(tool, f"import os, ctypes\npid = {fork}\nresult = 'first'")
    others = [await _run(tool, "result = n", n=n) for n in range(6)]
    assert (first.error, first.result) == (None, "first")
    assert [outcome.result for outcome in others] == list(range(6))


@pytest.mark.parametrize("fork", FORKS)
async def test_a_copy_that_is_late_answers_nobody(tool, fork) -> None:
    first = await _run(tool, f"""
        import os, time, ctypes
        if {fork} == 0:
            time.sleep(0.3)
            result = 'the copy'
        else:
            result = 'first'
    """)
    others = []
    for n in range(6):
        others.append(await _run(tool, "result = n", n=n))
        await asyncio.sleep(0.1)
    assert first.result == "first"
    assert [outcome.result for outcome in others] == list(range(6))


async def test_fork_works_for_code_that_waits_for_its_copy(tool) -> None:
    outcome = await _run(tool, """
        import os, sys
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(write, b"from the copy")
            sys.exit(3)
        status = os.waitpid(pid, 0)[1]
        result = [os.waitstatus_to_exitcode(status), os.read(read, 100).decode()]
    """)
    assert (outcome.error, outcome.result) == (None, [3, "from the copy"])


async def test_a_copy_cannot_reach_the_channel(tool) -> None:
    """It would read the next request, or keep the channel open."""
    outcome = await _run(tool, """
        import os, stat
        read, write = os.pipe()
        if os.fork() == 0:
            found = 0
            for name in os.listdir("/proc/self/fd"):
                try:
                    found += stat.S_ISSOCK(os.fstat(int(name)).st_mode)
                except OSError:
                    pass
            os.write(write, str(found).encode())
            os._exit(0)
        os.wait()
        result = os.read(read, 10).decode()
    """)
    assert outcome.result == "0"


async def test_an_answer_to_another_call_is_a_crash_of_this_one(tmp_path, monkeypatch) -> None:
    pool = Pool(1, str(tmp_path))
    try:
        await pool.ask(Request("result = 1", {}, {}))
        child = pool._idle[0]
        asked = child._exchange

        async def other(request: Request) -> Reply:
            return await asked(Request(request.code, request.args, request.libs, id="another"))

        monkeypatch.setattr(child, "_exchange", other)
        with pytest.raises(Crashed, match="another call"):
            await pool.ask(Request("result = 2", {}, {}))
        assert (await pool.ask(Request("result = 3", {}, {}))).result == 3
    finally:
        await pool.close()


async def test_what_nobody_asked_for_ends_the_child_and_is_nobodys_result(tool) -> None:
    """Code that writes into the channel itself, after its answer and before the next call."""
    await _run(tool, """
        import os, socket, stat, threading, time
        fds = [int(name) for name in os.listdir("/proc/self/fd")]
        def sock(fd):
            try:
                return stat.S_ISSOCK(os.fstat(fd).st_mode)
            except OSError:
                return False
        channel = next(fd for fd in fds if sock(fd))
        def late():
            time.sleep(0.2)
            os.write(channel, b"\\0\\0\\0\\2{}")
        threading.Thread(target=late, daemon=True).start()
    """)
    await asyncio.sleep(0.4)
    assert [(await _run(tool, "result = n", n=n)).result for n in range(3)] == [0, 1, 2]


LEAVES = {
    "a child process": "import subprocess\nsubprocess.Popen(['sleep', '600'])",
    "a zombie": "import os, time\nos.posix_spawn('/bin/true', ['true'], {})\ntime.sleep(0.2)",
    "a forked copy that it waited for": "import os\nif os.fork() == 0: os._exit(0)\nos.wait()",
    "an orphan": "import os\nos.system('sleep 600 >/dev/null 2>&1 &')",
    "a thread": "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()",
    "a plain thread": "import _thread, time\n_thread.start_new_thread(time.sleep, (600,))\ntime.sleep(0.05)",
    "an open file": "import os\nos.open('/dev/null', os.O_RDONLY)",
    "a replaced module": "import sys, types\nsys.modules['json'] = types.ModuleType('json')",
    "a removed module": "import sys, socket\ndel sys.modules['socket']",
    "a module of its own": "import sys, types\nsys.modules['mine'] = types.ModuleType('mine')",
    "a module under another name": "import sys, json\nsys.modules['mine'] = json",
    "a builtin": "import builtins\nbuiltins.open = print",
    "the length of everything": "import builtins\nbuiltins.len = lambda given: 666",
    "a new builtin": "import builtins\nbuiltins.mine = 1",
    "sys.stdout": "import sys, io\nsys.stdout = io.StringIO()\nsys.__stdout__ = None",
    "sys.excepthook": "import sys\nsys.excepthook = print",
    "sys.path": "import sys\nsys.path.insert(0, '/tmp')",
    "sys.meta_path": "import sys\nsys.meta_path.append(object())",
    "a signal handler": "import signal\nsignal.signal(signal.SIGUSR1, print)",
    "a blocked signal": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])",
    "an alarm": "import signal\nsignal.alarm(600)",
    "the folder": "import os\nos.chdir('/')",
    "an environment variable": "import os\nos.environ['MINE'] = '1'",
    "the umask": "import os\nos.umask(0o777)",
    "a limit": "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (900, 1000))",
    "a tracer": "import sys\nsys.setprofile(lambda *given: None)",
    "no garbage collection": "import gc\ngc.disable()",
    "the recursion limit": "import sys\nsys.setrecursionlimit(5000)",
    "a time limit of sockets": "import socket\nsocket.setdefaulttimeout(1)",
    "a locale": "import locale\nlocale.setlocale(locale.LC_ALL, 'C' if locale.setlocale(locale.LC_ALL) != 'C' "
                "else 'C.UTF-8')",
    "a log handler": "import logging\nlogging.basicConfig()",
    "standard output": "import os\nos.dup2(os.open('/dev/null', os.O_WRONLY), 1)",
    "standard input": "import os\nfd = os.open('/dev/zero', os.O_RDONLY)\nos.dup2(fd, 0)\nos.close(fd)",
    "an alarm of its own time": "import signal\nsignal.setitimer(signal.ITIMER_VIRTUAL, 600)",
    "an alarm of its whole time": "import signal\nsignal.setitimer(signal.ITIMER_PROF, 600)",
    "a timer of the kernel": TIMER,
    "a wakeup descriptor": "import os, signal\nos.set_blocking(0, False)\n"
                           "signal.set_wakeup_fd(0, warn_on_full_buffer=False)",
    "a signal handler of C": "import ctypes\nctypes.CDLL(None).signal(12, ctypes.c_void_p(1))",
    "a priority": "import os\nos.setpriority(0, 0, 18 if os.nice(0) == 19 else 19)",
    "a scheduling class": "import os\nos.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))",
    "fewer processors": "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})",
    "a limit of digits": "import sys\nsys.set_int_max_str_digits(640)",
    "a limit of open files": "import resource\nhard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
                             "resource.setrlimit(resource.RLIMIT_NOFILE, (99, hard))",
    "a limit of file sizes": "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (10**9, 10**9))",
    "the switch interval": "import sys\nsys.setswitchinterval(1)",
    "the collector's thresholds": "import gc\ngc.set_threshold(1)",
    "a callback of the collector": "import gc\ngc.callbacks.append(lambda *given: None)",
    "a trace of threads": "import threading\nthreading.settrace(lambda *given: None)",
    "the size of stacks": "import threading\nthreading.stack_size(1 << 20)",
    "an audit hook": "import sys\nsys.addaudithook(lambda *given: None)",
    "the default of decimals": "import decimal\ndecimal.DefaultContext.prec = 3",
    "fault handlers": "import faulthandler, os\nfaulthandler.enable(1)",
    "a variable of C": "import os\nos.putenv('MINE', '1')",
    "a time zone": "import os, time\nos.environ['TZ'] = 'XYZ-5'\ntime.tzset()\ndel os.environ['TZ']",
    "no death with its warden": "import ctypes\nctypes.CDLL(None).prctl(1, 0, 0, 0, 0)",
    "no new privileges": "import ctypes\nctypes.CDLL(None).prctl(38, 1, 0, 0, 0)",
    "slack of timers": "import ctypes\nctypes.CDLL(None).prctl(29, 10**9, 0, 0, 0)",
    "a score for the killer": "open('/proc/self/oom_score_adj', 'w').write('1000')",
    "arguments": "import sys\nsys.argv.append('mine')",
}
ROOT_LEAVES = {
    "another user": "import os\nos.setuid(65534)",
    "another group": "import os\nos.setgid(65534)",
    "other groups": "import os\nos.setgroups([65534])",
    "another saved user": "import os\nos.setresuid(-1, -1, 65534)",
    "another root": "import os\nos.chroot('/tmp')",
    "a namespace": "import ctypes\nassert ctypes.CDLL(None).unshare(0x04000000) == 0",
}
if os.geteuid() == 0:
    LEAVES |= ROOT_LEAVES


@pytest.mark.parametrize("what", LEAVES)
async def test_a_process_in_which_something_was_left_is_not_used_again(tool, what) -> None:
    before = (await _run(tool, PID)).result
    left = await _run(tool, LEAVES[what] + "\nresult = 'said'")
    assert (left.error, left.result) == (None, "said")
    after = (await _run(tool, PID)).result
    assert after != before
    assert await asyncio.to_thread(gone, before)


KEEPS = {
    "many imports": "import decimal, faulthandler, sqlite3, ssl, unittest, urllib.request, ctypes",
    "a loop of its own": "import asyncio\nasync def f(): pass\nasyncio.run(f())",
    "filters of warnings": "import warnings\nwarnings.simplefilter('error')",
    "a variable that it put back": "import os\nbefore = os.environ.pop('PATH')\nos.environ['PATH'] = before",
    "an import": "import fractions, xml.dom.minidom, concurrent.futures",
    "a package that fills in modules of its own": "import xml.etree.ElementTree, importlib.resources, os.path",
    "a file that the code forgot to close": "file = open('/dev/null')\ndef f(): return file",
    "a program that ended": "import subprocess\nsubprocess.run(['true'])\nos = __import__('os')\nos.system('true')",
    "threads that ended": "from concurrent.futures import ThreadPoolExecutor\n"
                          "with ThreadPoolExecutor(2) as pool: list(pool.map(str, range(9)))",
    "an event loop": "import asyncio\nasync def main():\n    await asyncio.to_thread(str)\n    return 'said'",
    "an error": "raise ValueError('x')",
    "output": "print('x' * 100)\nimport os\nos.system('echo y')",
}


@pytest.mark.parametrize("what", KEEPS)
async def test_a_process_in_which_nothing_was_left_stays_warm(tool, what) -> None:
    before = (await _run(tool, PID)).result
    await _run(tool, KEEPS[what])
    assert (await _run(tool, PID)).result == before


async def test_every_call_sees_what_its_own_programs_print_and_nothing_else(tool) -> None:
    outcomes = [await _run(tool, "import os\nos.system(f'echo {n}')", n=n) for n in range(3)]
    assert [outcome.meta["stdout"] for outcome in outcomes] == ["0\n", "1\n", "2\n"]


async def test_decimal_precision_of_a_call_is_its_own(tool) -> None:
    await _run(tool, "import decimal\ndecimal.getcontext().prec = 3")
    outcome = await _run(tool, "import decimal\nresult = decimal.getcontext().prec")
    assert outcome.result == 28


async def test_warnings_filters_of_a_call_are_its_own(tool) -> None:
    await _run(tool, "import warnings\nwarnings.simplefilter('error')")
    outcome = await _run(tool, "import warnings\nwarnings.warn('heard')\nresult = 'said'")
    assert (outcome.error, outcome.result) == (None, "said")
    assert "heard" in outcome.meta["stdout"]


LOOPS = {
    "a loop that was closed": "import asyncio\nloop = asyncio.new_event_loop()\n"
                              "asyncio.set_event_loop(loop)\nloop.close()",
    "no loop": "import asyncio\nasync def main(): return 'said'",
    "a policy": "import asyncio\nclass Mine(asyncio.DefaultEventLoopPolicy):\n"
                "    def get_event_loop(self): raise RuntimeError\nasyncio.set_event_loop_policy(Mine())",
}


@pytest.mark.parametrize("what", LOOPS)
async def test_the_event_loop_of_a_call_is_its_own(tool, what) -> None:
    """Code written for earlier versions of Python asks for the current loop, which a new process makes."""
    await _run(tool, LOOPS[what])
    outcome = await _run(tool, "import asyncio\nloop = asyncio.get_event_loop()\n"
                               "result = loop.run_until_complete(asyncio.sleep(0, 'said'))\nloop.close()")
    assert (outcome.error, outcome.result) == (None, "said")


async def test_a_traceback_that_a_call_asked_for_ends_no_other_call(tool) -> None:
    await _run(tool, "import faulthandler\nfaulthandler.dump_traceback_later(0.3, exit=True, file=1)")
    outcome = await _run(tool, "import time\ntime.sleep(1)\nresult = 'said'")
    assert (outcome.error, outcome.result) == (None, "said")


@pytest.mark.parametrize(("kind", "config"), [
    ("python", {"code": "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"}),
    ("shell", {"cmds": "setsid sleep 600 & echo there"}),
])
def test_the_loop_that_workers_use_is_as_good(tmp_path, kind, config) -> None:
    async def calls() -> list[Any]:
        tool = open_tool(kind, ToolOptions(python_processes=1, temp_folder=str(tmp_path)))
        try:
            return [(await tool.run(call(config))).error for _ in range(3)]
        finally:
            await tool.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(calls()) == [None, None, None]


async def test_a_daemon_does_not_outlive_its_call(tool, tmp_path) -> None:
    file = tmp_path / "pid"
    assert (await _run(tool, DAEMON, file=str(file))).error is None
    assert await asyncio.to_thread(gone, int(file.read_text()))


async def test_a_daemon_does_not_outlive_a_call_over_its_time(tool, tmp_path) -> None:
    file = tmp_path / "pid"
    outcome = await _run(tool, DAEMON + "\nwhile True: pass", 3.0, file=str(file))
    assert outcome.error["kind"] == "timeout"
    assert await asyncio.to_thread(gone, int(file.read_text()))


WORKER = """
import asyncio, sys
from shared.tools.base.contract import Call, ToolOptions
from shared.tools.registry import open_tool
kind, config, folder = sys.argv[1], eval(sys.argv[2]), sys.argv[3]
call = Call(config, {}, None, "k", 60.0)
asyncio.run(open_tool(kind, ToolOptions(temp_folder=folder)).run(call))
"""
# Nothing but the broken connection tells that the worker is gone: no signal reaches a session of its own.
SCRIPT = "setsid sh -c 'sh -c \"echo \\$\\$ >$file.new; mv $file.new $file; exec sleep 600\" &' ; sleep 600"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("kind", ["python", "shell"])
def test_a_daemon_does_not_outlive_a_worker_that_is_killed(tmp_path, kind, how) -> None:
    file = tmp_path / "pid"
    args = {"file": str(file)}
    config = {"code": DAEMON + "\nwhile True: time.sleep(1)", "args": args} if kind == "python" else \
        {"cmds": SCRIPT, "args": args}
    worker = subprocess.Popen([sys.executable, "-c", WORKER, kind, repr(config), str(tmp_path)])
    try:
        daemon = int(written(file))
        assert running(daemon)
    finally:
        worker.send_signal(how)
        worker.wait()
    killed = time.monotonic()
    assert gone(daemon)
    assert time.monotonic() - killed < 2.0
