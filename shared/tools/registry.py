"""Every tool kind. To add one: a file with its SPEC and its Tool, and a line here.

The specs are plain data; a tool's library (aiohttp, asyncpg, duckdb) is imported when the tool is opened.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from shared.tools.base.contract import Tool, ToolOptions, ToolSpec
from shared.tools.duckdb import lake_tool
from shared.tools.duckdb import tool as duck
from shared.tools.flow import artifact, noop, playbook, secrets, signal, wait
from shared.tools.flow.answering import answering
from shared.tools.gcs import tool as gcs
from shared.tools.http import tool as http
from shared.tools.kubernetes import container_tool as container
from shared.tools.kubernetes import script_tool as script_job
from shared.tools.nats import tool as nats_tool
from shared.tools.postgres import tool as postgres
from shared.tools.python import tool as python
from shared.tools.quantum import tool as quantum
from shared.tools.shell import tool as shell
from shared.tools.snowflake import tool as snowflake
from shared.tools.transfer import tool as transfer

Factory = Callable[[ToolOptions], Tool]

_SPECS: dict[str, ToolSpec] = {}
_FACTORIES: dict[str, Factory] = {}
_TURNS: dict[str, Callable[[ToolOptions], int]] = {}


def register(spec: ToolSpec, factory: Factory, turns: Callable[[ToolOptions], int] | None = None) -> None:
    """Adds a kind; a kind that is already there is a mistake of the program. `turns` says how many calls of it can be
    made at a time, if that is less than a worker has slots."""
    if spec.kind in _SPECS:
        raise ValueError(f"the tool kind {spec.kind!r} is registered twice")
    _SPECS[spec.kind] = spec
    _FACTORIES[spec.kind] = factory
    if turns is not None:
        _TURNS[spec.kind] = turns


def specs() -> Mapping[str, ToolSpec]:
    return MappingProxyType(_SPECS)


def turns(options: ToolOptions) -> dict[str, int]:
    """The kinds whose calls take turns, and how many of each can be made at a time."""
    return {kind: size(options) for kind, size in _TURNS.items()}


def open_tool(kind: str, options: ToolOptions) -> Tool:
    """A tool for one event loop; it connects and starts processes on first use."""
    return _FACTORIES[kind](options)


register(noop.SPEC, answering(noop.answer))
register(http.SPEC, http.HttpTool)
register(python.SPEC, python.PythonTool, lambda options: options.python_processes)
register(postgres.SPEC, postgres.PostgresTool)
register(duck.SPEC, duck.DuckTool)
register(playbook.SPEC, answering(playbook.answer))
register(wait.SPEC, answering(wait.answer))
register(signal.SPEC, answering(signal.answer))
register(shell.SPEC, shell.ShellTool)
register(artifact.SPEC, artifact.ArtifactTool)
register(secrets.SPEC, secrets.SecretsTool)
register(nats_tool.SPEC, nats_tool.NatsTool)
register(snowflake.SPEC, snowflake.SnowflakeTool)
register(transfer.SPEC, transfer.TransferTool)
register(lake_tool.SPEC, lake_tool.DuckLakeTool)
register(container.SPEC, container.ContainerTool)
register(script_job.SPEC, script_job.ScriptTool)
register(gcs.SPEC, gcs.GcsTool)
register(quantum.SPEC, quantum.QuantumTool)
