"""`auth` of a task in its canonical form: a credential's name, or aliases of several credentials for a tool
that accepts them."""

from typing import Any

from shared.dsl.model.tool_spec import ToolSpec
from shared.dsl.read.reader import Reader
from shared.dsl.source.nodes import Path
from shared.events.bounds import MAX_CREDENTIAL_NAME

ALIAS_KEYS = ("credential", "type", "scope")
MAX_ALIASES = 32
_FIX = "write auth: <credential name>"
_ALIASES_FIX = _FIX + ", or auth: {alias: {credential: <name>, type: …}}"


def read_auth(reader: Reader, value: Any, path: Path, tool: ToolSpec | None) -> None:
    if not isinstance(value, dict) or (tool is not None and not tool.aliases):
        _name(reader, value, path, _ALIASES_FIX if tool is not None and tool.aliases else _FIX)
        return
    if not 1 <= len(value) <= MAX_ALIASES:
        reader.value(path, "DSL204", f"auth has {len(value)} aliases, outside 1 to {MAX_ALIASES}", _ALIASES_FIX)
    for alias, entry in value.items():
        at = (*path, alias)
        if not alias.isidentifier():
            reader.key(at, "DSL205", f"an alias of auth cannot be called {alias[:60]!r}", "letters, digits and _")
        found = reader.mapping(entry, at, _ALIASES_FIX)
        if not isinstance(entry, dict):
            continue
        reader.keys(found, at, ALIAS_KEYS, {}, f"alias {alias[:60]!r} of auth")
        reader.required(found, "credential", at, f"alias {alias[:60]!r} of auth", _ALIASES_FIX)
        for key in ("type", "scope"):
            if key in found:
                reader.text(found[key], (*at, key), _ALIASES_FIX)
        if "credential" in found:
            _name(reader, found["credential"], (*at, "credential"), _ALIASES_FIX)


def _name(reader: Reader, value: Any, path: Path, fix: str) -> None:
    """What a template makes of it is held to the same by the worker."""
    if isinstance(value, str) and "{{" in value:
        reader.text(value, path, fix)
    else:
        reader.text(value, path, fix, most=MAX_CREDENTIAL_NAME)
