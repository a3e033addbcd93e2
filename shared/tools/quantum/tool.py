"""`kind: quantum` (FX §11): submits a circuit, asks for the state of the job, reads its results."""

from typing import Any

from shared.events.outcome import Outcome, ok
from shared.tools.base.contract import Call, KeySpec, ToolOptions, ToolSpec
from shared.tools.base.guard import BadCall, guarded
from shared.tools.quantum.circuit import shots_of
from shared.tools.quantum.given import circuit_of
from shared.tools.quantum.local import LocalProvider
from shared.tools.quantum.provider import Job, Provider

LOCAL = "local"
# To add a provider: a module beside this one with a class that keeps `Provider`, and a line here.
PROVIDERS: dict[str, type[Provider]] = {LOCAL: LocalProvider}
OPERATIONS = ("submit", "status", "results")
DEFAULT_SHOTS = 1024
_MARK = ":"  # between the provider and its own id

SPEC = ToolSpec(
    kind="quantum",
    doc="A job on a quantum computer, or on a simulator. Result: {job_id, …} of submit, {state, …} of status, "
        "{counts, …} of results.",
    keys={
        "op": KeySpec("submit unless given; status and results are about a job_id.", choices=OPERATIONS),
        "provider": KeySpec("Who computes: local, the worker's simulator, unless given. A job_id says whose it is."),
        "circuit": KeySpec("OpenQASM 2.0, or {qubits, gates: [{gate, qubits, angles}], measure: [qubits]}."),
        "shots": KeySpec("How often it is measured: 1 to 100,000, 1,024 unless given."),
        "job_id": KeySpec("What submit gave."),
        "auth": KeySpec("Credential of the provider; local needs none."),
    },
)


class QuantumTool:
    def __init__(self, options: ToolOptions) -> None:
        self._stand_ins = options.quantum_stand_ins
        self._open: dict[str, Provider] = {}

    async def run(self, call: Call) -> Outcome:
        return await guarded(call, self._run(call))

    async def close(self) -> None:
        """Nothing to release: a provider holds nothing between calls."""

    async def _run(self, call: Call) -> Outcome:
        match call.config.get("op", "submit"):
            case "submit":
                return ok(await self._submit(call))
            case "status":
                name, job = self._job(call)
                state = await self._provider(name).status(job, call.auth)
                return ok({"job_id": call.config["job_id"], "provider": name, "state": state})
            case "results":
                name, job = self._job(call)
                found = await self._provider(name).results(job, call.auth)
                return ok({"job_id": call.config["job_id"], "provider": name, "shots": found.shots,
                           "counts": found.counts})
            case other:
                raise BadCall(f"op cannot be {str(other)[:40]!r}; one of: {', '.join(OPERATIONS)}")

    async def _submit(self, call: Call) -> dict[str, Any]:
        name = str(call.config.get("provider") or LOCAL)
        provider, shots = self._provider(name), call.config.get("shots")
        if call.config.get("circuit") is None:
            raise BadCall("there is no circuit to submit; status and results are op: status and op: results")
        job = Job(circuit_of(call.config["circuit"]), shots_of(DEFAULT_SHOTS if shots is None else shots),
                  call.idempotency_key, call.auth)
        return {"job_id": f"{name}{_MARK}{await provider.submit(job)}", "provider": name, "shots": job.shots}

    def _job(self, call: Call) -> tuple[str, str]:
        """Whose job it is, and what that one calls it."""
        given, asked = call.config.get("job_id"), call.config.get("provider")
        name, mark, job = str(given or "").partition(_MARK)
        if not mark or not job:
            raise BadCall("job_id must be what submitting a job gave")
        if asked is not None and asked != name:
            raise BadCall(f"the job is of provider {name[:40]!r}, not {str(asked)[:40]!r}")
        return name, job

    def _provider(self, name: str) -> Provider:
        known = LOCAL if name in self._stand_ins else name
        if known not in PROVIDERS:
            raise BadCall(
                f"there is no quantum provider {name[:40]!r} here; known: {', '.join(sorted(PROVIDERS))}. One is added "
                "in shared/tools/quantum/tool.py; a worker whose NOETL_QUANTUM_STAND_INS names it uses the simulator")
        if known not in self._open:
            self._open[known] = PROVIDERS[known]()
        return self._open[known]
