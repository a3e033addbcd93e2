"""No password in an environment, a command line, a log or a file that others read; and a task cannot get at those of
the worker that runs it by way of the worker's process."""

import ctypes
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import LIMIT_S, Up, environment, run
from tests.support.paths import ROOT
from tests.support.processes import children
from tests.support.waiting import wait_until

# What a task of the same user sees of itself, and what it tries to see of its worker.
OWN = """
import os
fds = []
for fd in os.listdir("/proc/self/fd"):
    try:
        fds.append(os.readlink("/proc/self/fd/" + fd))
    except OSError:
        pass
result = {"environ": dict(os.environ), "fds": fds}
"""
WORKERS = """
import ctypes, os
pid = os.getpid()
while b"services.worker" not in open(f"/proc/{pid}/cmdline", "rb").read():
    pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
said = {}
def tried(what, call):
    try:
        said[what] = repr(call())[:200]
    except OSError as error:
        said[what] = type(error).__name__
tried("environ", lambda: open(f"/proc/{pid}/environ", "rb").read())
tried("memory", lambda: open(f"/proc/{pid}/mem", "rb").seek(0))
tried("maps", lambda: open(f"/proc/{pid}/maps").read())
tried("descriptors", lambda: os.readlink(f"/proc/{pid}/fd/1"))
tried("folder", lambda: os.readlink(f"/proc/{pid}/cwd"))
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
tried("seize", lambda: libc.ptrace(0x4206, pid, None, None) and (_ for _ in ()).throw(OSError(ctypes.get_errno(), "")))
pidfd = os.pidfd_open(pid)
said["taken"] = [fd for fd in (libc.syscall(438, pidfd, fd, 0) for fd in range(3, 30)) if fd >= 0]
core = [line.split()[4:6] for line in open(f"/proc/{pid}/limits") if line.startswith("Max core")]
result = {"tried": said, "core": core[0]}
"""


def book(code: str) -> str:
    indented = "\n".join("            " + line for line in code.splitlines())
    return f"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: probe, path: probe}}
workflow:
  - step: start
    tool:
      - seen:
          kind: python
          code: |
{indented}
      - listed:
          kind: shell
          cmd: env
"""


GIVEN = {"AWS_SECRET_ACCESS_KEY": "cloud-key-1", "NOETL_NATS_PASSWORD": "plain-word-1",
         "NOETL_NATS_USER": "somebody", "PGPASSWORD": "pg-word-1",
         "NOETL_POSTGRES_DSN": "postgresql://u:plain-word-2@h/d"}


# A stack of processes without a read model: PostgreSQL does not start for a root that has no rights.
STACK = """
import asyncio, signal, sys
from pathlib import Path
from services.cli.stack import context, keeper
from services.cli.stack.embedded import SERVICES
from shared.runtime.embedded.stack import Options, Stack

async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    home = Path(sys.argv[1])
    async with Stack(Options(home, processes=True), [s for s in SERVICES if not s.needs_postgres]) as stack:
        await stack.ready()
        context.write(home, keeper.context_of(stack))
        await stop.wait()

asyncio.run(main())
"""
SECUREBITS, NOROOT = 28, 3  # of prctl(2): with the next program root has no rights beyond its own files


def without_rights() -> None:
    assert ctypes.CDLL(None).prctl(SECUREBITS, NOROOT, 0, 0, 0) == 0


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Secrets of whoever starts it lie around."""
    stack = Up(tmp_path_factory.mktemp("secrets"), **GIVEN)
    try:
        stack.wait()
        yield stack
    finally:
        stack.stop()


@pytest.fixture(scope="module")
def told(up: Up) -> dict[str, Any]:
    """What the tasks of the playbook could find out."""
    return probed(up.folder, up.context_file, OWN)


@pytest.fixture(scope="module")
def told_weak(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The same where nobody may look into any process: what is refused to others is not to root."""
    home = tmp_path_factory.mktemp("weak")
    file = home / "context.json"
    process = subprocess.Popen([sys.executable, "-c", STACK, str(home)], env=environment(), cwd=ROOT,
                               preexec_fn=without_rights if os.getuid() == 0 else None)
    try:
        wait_until(lambda: file.exists() or process.poll() is not None, "the stack is up", LIMIT_S)
        assert process.poll() is None
        yield probed(home, file, WORKERS)
    finally:
        process.terminate()
        process.wait(LIMIT_S)


def probed(folder: Path, file: Path, code: str) -> dict[str, Any]:
    (folder / "probe.yaml").write_text(book(code))
    at = ("--context", str(file))
    for command in (("register", "probe.yaml"), ("execute", "probe", "--wait", "-o", "json")):
        done = run(*command, *at, cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr
    execution = json.loads(done.stdout)["execution_id"]
    events = [json.loads(line) for line in run("events", execution, *at, cwd=folder).stdout.splitlines()]
    outcomes = [e["payload"]["outcome"] for e in events if "outcome" in e.get("payload", {})]
    python, shell = (outcome["result"] for outcome in outcomes)
    return {**python, "shell": shell["stdout"]}


def family(pid: int) -> dict[int, str]:
    found = children(pid)
    for child in list(found):
        found |= family(child)
    return found


def passwords(up: Up) -> list[str]:
    context = up.context
    dsns = [context["postgres_dsn"], context.get("postgres_admin_dsn", "")]
    return [*context["users"].values(), *(dsn.split(":")[2].split("@")[0] for dsn in dsns if dsn)]


def test_no_process_shows_a_password_or_the_secrets_of_whoever_started_the_stack(
    up: Up, told: dict[str, Any]
) -> None:
    assert told, "processes of tools are there too"
    everybody = {**family(up.process.pid), **dict.fromkeys(up.servers(), "postgres")}
    assert sum("services." in line for line in everybody.values()) >= 5, "four services and a worker"
    assert any("nats-server" in line for line in everybody.values())
    assert any("shared.tools.python.child" in line for line in everybody.values())
    secret = [*passwords(up), *(word for word in GIVEN.values() if word not in ("cloud-key-1", "pg-word-1"))]
    for pid, line in everybody.items():
        shown = Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
        assert [word for word in secret if word.encode() in shown] == [], line


def test_files_that_hold_a_password_are_the_owners_alone_and_logs_hold_none(up: Up) -> None:
    words, home = [word.encode() for word in passwords(up)], up.context_file.parent
    holding = [file for file in home.rglob("*") if file.is_file() and any(word in file.read_bytes() for word in words)]
    assert {str(file.relative_to(home)) for file in holding} == {
        "context.json", "postgres.json", "nats/nats.conf", "nats/passwords.json", "nats/workers.json"
    }
    assert {stat.S_IMODE(file.stat().st_mode) for file in holding} == {0o600}
    assert [word for word in words if word in up.log.read_bytes()] == [], "what `up` prints is copied and shown"
    workers = json.loads((home / "nats" / "workers.json").read_text())
    assert set(workers) == {"worker_default"}, "who starts workers needs no other password"


def test_a_task_cannot_look_into_its_worker(told_weak: dict[str, Any]) -> None:
    refused, tried = {"environ", "memory", "maps", "descriptors", "folder", "seize"}, told_weak["tried"]
    assert {what: said for what, said in tried.items() if said != "PermissionError"} == {"taken": []}
    assert set(tried) == {*refused, "taken"}
    assert told_weak["core"] == ["0", "0"], "no core dump has them either"


def test_a_task_inherits_neither_secrets_nor_descriptors(up: Up, told: dict[str, Any]) -> None:
    shown = json.dumps(told["environ"]) + told["shell"]
    assert [word for word in (*passwords(up), *GIVEN.values()) if word in shown] == []
    assert [name for name in told["environ"] if name.startswith(("NOETL_", "AWS_", "PG"))] == []
    assert {"PATH", "HOME"} <= set(told["environ"])
    sockets = [place for place in told["fds"] if place.startswith("socket:")]
    assert len(sockets) == 1, "the one on which it is told its calls"


@pytest.mark.usefixtures("told")
def test_a_service_that_dies_gets_its_secrets_again(up: Up) -> None:
    victim = next(pid for pid, line in children(up.process.pid).items() if "services.router" in line)
    os.kill(victim, signal.SIGKILL)
    done = run("execute", "probe", "--wait", "-o", "json", "--timeout", "60", cwd=up.folder)
    assert json.loads(done.stdout)["status"] == "completed", done.stderr
