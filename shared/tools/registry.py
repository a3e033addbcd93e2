"""Every tool kind. To add one: a file with its SPEC and its Tool, and a line here.

The specs are plain data; a tool's library (aiohttp, asyncpg, duckdb) is imported when the tool is opened.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from shared.tools import (
    artifact,
    container,
    duck,
    ducklake,
    gcs,
    http,
    nats_tool,
    noop,
    playbook,
    postgres,
    python,
    script_job,
    shell,
    signal,
    snowflake,
    transfer,
    wait,
)
from shared.tools.contract import Tool, ToolOptions, ToolSpec

Factory = Callable[[ToolOptions], Tool]

_SPECS: dict[str, ToolSpec] = {}
_FACTORIES: dict[str, Factory] = {}


def register(spec: ToolSpec, factory: Factory) -> None:
    """Adds a kind; a kind that is already there is a mistake of the program."""
    if spec.kind in _SPECS:
        raise ValueError(f"the tool kind {spec.kind!r} is registered twice")
    _SPECS[spec.kind] = spec
    _FACTORIES[spec.kind] = factory


def specs() -> Mapping[str, ToolSpec]:
    return MappingProxyType(_SPECS)


def open_tool(kind: str, options: ToolOptions) -> Tool:
    """A tool for one event loop; it connects and starts processes on first use."""
    return _FACTORIES[kind](options)


register(noop.SPEC, noop.NoopTool)
register(http.SPEC, http.HttpTool)
register(python.SPEC, python.PythonTool)
register(postgres.SPEC, postgres.PostgresTool)
register(duck.SPEC, duck.DuckTool)
register(playbook.SPEC, playbook.PlaybookTool)
register(wait.SPEC, wait.WaitTool)
register(signal.SPEC, signal.SignalTool)
register(shell.SPEC, shell.ShellTool)
register(artifact.SPEC, artifact.ArtifactTool)
register(nats_tool.SPEC, nats_tool.NatsTool)
register(snowflake.SPEC, snowflake.SnowflakeTool)
register(transfer.SPEC, transfer.TransferTool)
register(ducklake.SPEC, ducklake.DuckLakeTool)
register(container.SPEC, container.ContainerTool)
register(script_job.SPEC, script_job.ScriptTool)
register(gcs.SPEC, gcs.GcsTool)
