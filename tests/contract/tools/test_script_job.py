"""`kind: script`: the program is run as it was written, in a container that sees its args and its variables."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from shared.tools.base.contract import Call, ToolOptions
from shared.tools.kubernetes.job_tool import Jobs
from shared.tools.kubernetes.script_tool import ScriptTool
from tests.support.calls import call, recorded
from tests.support.servers.kube import NAMESPACE, Container, Ended, Kube

PROGRAM = """import json, os, sys
args = json.loads(sys.argv[1])
assert args == json.loads(os.environ["NOETL_ARGS"])
print("processing", args["input_file"], "for", os.environ["BUCKET"])
print(json.dumps({"status": "completed", "mode": args["mode"], "key": json.loads(os.environ["ACCOUNT"])["id"]}))
"""
ARGS = {"input_file": "a b.csv", "mode": "it's $(HOME) \"batch\""}
SECRET = {"account": {"id": "key-of-the-account"}}


@pytest.fixture
async def tool(tmp_path: Path) -> AsyncIterator[ScriptTool]:
    one = ScriptTool(ToolOptions(scripts=str(tmp_path)), Jobs(max_poll_s=0.05))
    yield one
    await one.close()


@pytest.fixture
def ran(kube: Kube, tmp_path: Path) -> list[Container]:
    """An image whose programs are really run."""
    seen: list[Container] = []

    async def run(container: Container) -> Ended:
        seen.append(container)
        folder = tmp_path / f"container-{len(seen)}"
        folder.mkdir()
        for name, text in container.files.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o555)
        tools = tmp_path / "bin"
        tools.mkdir(exist_ok=True)
        (tools / "python3").unlink(missing_ok=True)
        (tools / "python3").write_text(f'#!/bin/sh\nif [ "$2" = pip ]; then echo pip "$@"; exit 0; fi\n'
                                       f'exec {sys.executable} "$@"\n')
        (tools / "python3").chmod(0o755)
        words = [word.replace("/noetl", str(folder)) for word in container.command]
        env = {"PATH": f"{tools}:{os.environ['PATH']}", **container.env}
        process = await asyncio.create_subprocess_exec(*words, env=env, stdout=asyncio.subprocess.PIPE,
                                                       stderr=asyncio.subprocess.STDOUT)
        output, _ = await process.communicate()
        return Ended(process.returncode or 0, output)

    kube.images["python:3.11-slim"] = run
    return seen


def task(kube: Kube, *, secrets: Any = None, key: str = "e/s:1/t/1", output: str = "text", job: Any = None,
         **config: Any) -> Call:
    settings = {"image": "python:3.11-slim", "namespace": NAMESPACE, **(job or {})}
    found = call({"job": settings, "output": output, **config}, auth=kube.credential, key=key)
    return msgspec.structs.replace(found, secrets=secrets or {})


@pytest.mark.usefixtures("ran")
async def test_a_program_from_a_server_runs_with_its_args(kube: Kube, tool: ScriptTool, site) -> None:
    uri = site.on("/data_processor.py", lambda: web.Response(text=PROGRAM))
    given = task(
        kube, script={"uri": uri, "source": {"type": "http"}}, args=ARGS, secrets=SECRET, output="json",
        job={"env": {"ACCOUNT": json.dumps(SECRET["account"]), "BUCKET": "out"}, "backoffLimit": 3,
             "ttlSecondsAfterFinished": 300, "install_dependencies": ["google-auth", "requests>=2,<3"],
             "resources": {"requests": {"memory": "256Mi", "cpu": "500m"}, "limits": {"memory": "512Mi"}}})
    outcome = recorded(await tool.run(given), given)
    assert outcome.error is None
    assert outcome.result["status"] == "completed"
    assert outcome.result["data"] == {"status": "completed", "mode": ARGS["mode"], "key": "***"}
    lines = outcome.result["output"].splitlines()
    assert lines[0].startswith("pip -m pip install --quiet")
    assert lines[1] == "processing a b.csv for out"
    assert "key-of-the-account" not in json.dumps([kube.made("jobs"), kube.made("configmaps"), kube.there("pods")])
    (files,) = kube.made("configmaps")
    assert files["data"] == {"data_processor.py": PROGRAM, "requirements.txt": "google-auth\nrequests>=2,<3\n"}
    mounts = kube.made("jobs")[0]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    assert mounts == [{"name": "program", "mountPath": "/noetl", "readOnly": True}]


@pytest.mark.usefixtures("ran")
async def test_a_program_in_the_playbook_runs(kube: Kube, tool: ScriptTool) -> None:
    outcome = await tool.run(task(kube, code="import sys; print(sys.argv[1:])"))
    assert outcome.result["output"] == "['{}']\n"


@pytest.mark.parametrize(("name", "text", "job"), [
    ("a.sh", "echo said $1", {}),
    ("plain", "#!/bin/sh\necho said $1", {}),
    ("a.txt", "echo said $1", {"command": ["sh", "-e"]}),
])
@pytest.mark.usefixtures("ran")
async def test_a_program_is_run_by_what_its_name_its_first_line_or_the_task_says(
    kube: Kube, tool: ScriptTool, tmp_path: Path, name: str, text: str, job: dict[str, Any]
) -> None:
    (tmp_path / name).write_text(text)
    outcome = await tool.run(task(kube, script={"uri": f"./{name}"}, job=job, args={"a": 1}))
    assert (outcome.error, outcome.result["output"]) == (None, 'said {"a":1}\n')


@pytest.mark.usefixtures("ran")
async def test_a_program_that_fails_is_told(kube: Kube, tool: ScriptTool) -> None:
    outcome = await tool.run(task(kube, code="import sys\nprint('no such bucket')\nsys.exit(4)"))
    assert outcome.error is not None
    assert (outcome.error["kind"], outcome.error["exit_code"]) == ("container", 4)
    assert outcome.error["message"].endswith("exit code 4: no such bucket")


async def test_a_program_nobody_can_run_is_refused(kube: Kube, tool: ScriptTool, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("what is this")
    outcome = await tool.run(task(kube, script={"uri": "a.txt"}))
    assert outcome.error is not None
    assert outcome.error["kind"] == "config"
    assert "job.command" in outcome.error["message"]


@pytest.mark.parametrize("package", [
    "--index-url=http://evil", "-r other.txt", "a\n--pre", "https://x/y.whl", "./local", "git+https://x/y", "a --pre",
    "a @ https://x/y", "a==1 --hash=b", "a" * 201,
])
async def test_only_names_of_packages_are_installed(kube: Kube, tool: ScriptTool, package: str) -> None:
    outcome = await tool.run(task(kube, code="print(1)", job={"install_dependencies": [package]}))
    assert outcome.error is not None
    assert (outcome.error["kind"], kube.requests) == ("config", [])


async def test_a_script_that_cannot_be_had_starts_no_job(kube: Kube, tool: ScriptTool) -> None:
    outcome = await tool.run(task(kube, script={"uri": "nowhere.py"}))
    assert outcome.error is not None
    assert (outcome.error["kind"], kube.requests) == ("script", [])


async def test_a_program_no_config_map_holds_is_refused(kube: Kube, tool: ScriptTool) -> None:
    outcome = await tool.run(task(kube, code="#" * (1 << 20) + "#"))
    assert outcome.error is not None
    assert (outcome.error["kind"], kube.requests) == ("limit", [])


async def test_two_calls_with_one_key_run_the_program_once(kube: Kube, ran, tool: ScriptTool) -> None:
    both = await asyncio.gather(*(tool.run(task(kube, code="print(1)")) for _ in range(2)))
    assert [each.result["output"] for each in both] == ["1\n", "1\n"]
    assert len(ran) == 1
