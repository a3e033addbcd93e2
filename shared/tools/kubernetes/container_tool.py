"""`kind: container`: an image run as a job of Kubernetes (FS §4.2). The worker's slot is held until the job ends."""

from shared.events.outcome import Outcome
from shared.tools.base.contract import Call, KeySpec, ToolOptions, ToolSpec
from shared.tools.base.guard import BadCall, guarded, mapping
from shared.tools.kubernetes import manifest as kube_manifest
from shared.tools.kubernetes.job_tool import Jobs, quiet
from shared.tools.kubernetes.manifest import ARGS, Work, image, veiled, words

RUNTIME = {
    "provider": KeySpec("kubernetes, also when it is left out.", choices=("kubernetes",)),
    **kube_manifest.KEYS,
    "command": KeySpec("List of texts, instead of the image's entry point."),
    "args": KeySpec("List of texts, instead of the image's arguments."),
}
SPEC = ToolSpec(
    kind="container",
    doc="Runs an image as a Kubernetes job. Result: {status, job_name, pod_name, namespace, exit_code, output, …}.",
    keys={
        "runtime": KeySpec("What runs, and where.", required=True, fields=RUNTIME),
        "env": KeySpec("Mapping of environment variables, kept in a Secret while the job is there; lists and mappings "
                       "are given as JSON."),
        "args": KeySpec(f"Mapping, given to the container as JSON in {ARGS}."),
        "output": KeySpec("json: the last line of the output is JSON, given as `data` in the result.",
                          choices=("text", "json")),
        "auth": KeySpec("Credential: {server, token, ca, namespace}; the account of the worker's pod unless given."),
    },
)


class ContainerTool:
    def __init__(self, _options: ToolOptions, jobs: Jobs | None = None) -> None:
        self._jobs = jobs or Jobs()

    async def run(self, call: Call) -> Outcome:
        return await guarded(quiet(call), self._run(call))

    async def close(self) -> None:
        await self._jobs.close()

    async def _run(self, call: Call) -> Outcome:
        runtime, args = mapping(call.config, "runtime"), mapping(call.config, "args")
        if runtime.get("provider") not in (None, "kubernetes"):
            raise BadCall("runtime.provider can only be kubernetes")
        command, veil = veiled(call, words(runtime.get("command"), "runtime.command"), "COMMAND")
        arguments, more = veiled(call, words(runtime.get("args"), "runtime.args"), "ARG")
        env = {**({ARGS: args} if args else {}), **mapping(call.config, "env"), **veil, **more}
        return await self._jobs.run(call, runtime, Work(image(runtime, "runtime"), command, arguments, env))
