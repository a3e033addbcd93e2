"""`kind: script`: a program run as a job of Kubernetes, in an image it needs. The program is mounted from a
ConfigMap; its args reach it as JSON, in its first argument and in a variable."""

import re
from collections.abc import Mapping
from typing import Any

from shared.events.outcome import Outcome
from shared.tools.base.contract import Call, KeySpec, ToolOptions, ToolSpec
from shared.tools.base.guard import BadCall, guarded, mapping
from shared.tools.kubernetes import manifest as kube_manifest
from shared.tools.kubernetes.job_tool import Jobs, quiet
from shared.tools.kubernetes.manifest import ARGS, MOUNT, Work, image, veiled, words
from shared.tools.scripts import loader as script

JOB = {
    **kube_manifest.KEYS,
    "command": KeySpec("List of texts that the program's path is added to; told by its name, or by #! in its first "
                       "line, unless given."),
    "install_dependencies": KeySpec("List of Python packages that pip installs before the program runs."),
    "env": KeySpec("Mapping of environment variables, kept in a Secret while the job is there; lists and mappings "
                   "are given as JSON."),
}
SPEC = ToolSpec(
    kind="script",
    doc="Runs a program as a Kubernetes job. Result: {status, job_name, pod_name, namespace, exit_code, output, …}.",
    keys={
        "script": script.key("The program, loaded when the task runs."),
        "code": KeySpec("The program itself; Python unless job.command or its first line says otherwise.",
                        template=False),
        "job": KeySpec("Where and how it runs.", required=True, fields=JOB),
        "args": KeySpec(f"Mapping, given to the program as JSON: its first argument, and {ARGS}."),
        "output": KeySpec("json: the last line of the output is JSON, given as `data` in the result.",
                          choices=("text", "json")),
        "auth": KeySpec("Credential: {server, token, ca, namespace}; the account of the worker's pod unless given."),
    },
    one_of=("script", "code"),
)

INTERPRETERS = {"py": ["python3"], "sh": ["sh"], "bash": ["bash"], "js": ["node"]}
MAX_DEPENDENCIES = 100
REQUIREMENTS = "requirements.txt"
# What pip reads is a file, so that no package name is ever text of a shell.
INSTALL = (f"python3 -m pip install --quiet --no-input --disable-pip-version-check --root-user-action=ignore "
           f'-r {MOUNT}/{REQUIREMENTS} && exec "$@"')
MAX_PACKAGE = 200  # characters of one
_VERSION = r"(?:===?|[<>~!]=|[<>]) ?[A-Za-z0-9.*+!_-]+"
_PACKAGE = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9._, -]+\])?(?: ?{_VERSION}(?: ?, ?{_VERSION})*)?"
                      r"(?: ?; ?[A-Za-z0-9_.<>=!~'\"() ]+)?\Z")


class ScriptTool:
    def __init__(self, options: ToolOptions, jobs: Jobs | None = None) -> None:
        self._jobs, self._scripts = jobs or Jobs(), script.Scripts(options)

    async def run(self, call: Call) -> Outcome:
        return await guarded(quiet(call), self._run(call))

    async def close(self) -> None:
        await self._jobs.close()

    async def _run(self, call: Call) -> Outcome:
        job = mapping(call.config, "job")
        named = image(job, "job")  # before anything is loaded
        uri = mapping(call.config, "script").get("uri")
        loaded = await self._scripts.as_code(call)
        text = loaded.config.get("code")
        if not isinstance(text, str) or not text.strip():
            raise BadCall("there is no program: give script or code")
        return await self._jobs.run(loaded, job, work(loaded, job, named, text, str(uri or "")))


def work(call: Call, job: Mapping[str, Any], named: str, text: str, uri: str) -> Work:
    name = re.sub("[^A-Za-z0-9._-]", "_", uri.partition("?")[0].rpartition("/")[2]).strip(".")[:100]
    name = name or ("program" if text.startswith("#!") else "program.py")
    given, veil = veiled(call, words(job.get("command"), "job.command"), "COMMAND")
    run = [*_command(name, text, given), f"{MOUNT}/{name}", f"$({ARGS})"]
    files, packages = {name: text}, dependencies(job.get("install_dependencies"))
    if packages:
        files |= {REQUIREMENTS: "\n".join(packages) + "\n"}
        run = ["sh", "-c", INSTALL, "noetl", *run]
    if len(files) < 1 + bool(packages):
        raise BadCall(f"a program cannot be called {REQUIREMENTS}")
    env = {ARGS: mapping(call.config, "args"), **mapping(job, "env"), **veil}
    return Work(named, run, [], env, files)


def _command(name: str, text: str, given: list[str]) -> list[str]:
    if given:
        return given
    found = INTERPRETERS.get(name.rpartition(".")[2])
    if found is None and not text.startswith("#!"):
        raise BadCall(f"how {name} is run is not known: give job.command, such as [python3]")
    return found or []


def dependencies(given: Any) -> list[str]:
    """Names of packages with versions, and nothing else that pip would take from a file."""
    found = words(given, "job.install_dependencies")
    if len(found) > MAX_DEPENDENCIES:
        raise BadCall(f"job.install_dependencies has over {MAX_DEPENDENCIES} packages: build them into the image")
    for each in found:
        if len(each) > MAX_PACKAGE or not _PACKAGE.match(each):
            raise BadCall(f"job.install_dependencies: {each[:60]!r} is not the name of a package")
    return found
