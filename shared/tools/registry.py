"""Every tool kind. To add one: a file with its SPEC and its Tool, and a line here.

The specs are plain data; a tool's library (aiohttp, asyncpg, duckdb) is imported when the tool is opened.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from shared.tools import duck, http, noop, postgres, python
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
