"""`loop.cursor`: elements that a query claims, a frame at a time, while the loop runs."""

from collections.abc import Mapping
from typing import Any

from shared.dsl.model.plan import Cursor, Task
from shared.dsl.model.tool_spec import ToolSpec
from shared.dsl.read.auth import read_auth
from shared.dsl.read.reader import Reader, short
from shared.dsl.read.template_fields import check_templates
from shared.dsl.source.nodes import Path

DEFAULT_FRAME = 100
MAX_FRAME = 10_000  # rows that one claim may take
KEYS = ("kind", "auth", "connection", "claim", "frame")
_FIX = 'write cursor: {kind: postgres, auth: <credential>, claim: "UPDATE … RETURNING …"}'


def read_cursor(reader: Reader, value: Any, path: Path, kinds: Mapping[str, ToolSpec]) -> Cursor:
    cursor = reader.mapping(value, path, _FIX)
    if not isinstance(value, dict):
        return Cursor(Task("claim", "", {}), DEFAULT_FRAME)
    reader.keys(cursor, path, KEYS, {}, "a cursor")
    frame = reader.whole(cursor["frame"], (*path, "frame"), 1, MAX_FRAME) if "frame" in cursor else DEFAULT_FRAME
    kind = _kind(reader, cursor, path, kinds)
    config: dict[str, Any] = {}
    if reader.required(cursor, "claim", path, "a cursor", "add claim: SQL that claims rows and returns them"):
        config["command"] = reader.text(cursor["claim"], (*path, "claim"), "write claim: SQL")
        check_templates(reader, cursor["claim"], (*path, "claim"))
    if "auth" in cursor:
        read_auth(reader, cursor["auth"], (*path, "auth"), kinds.get(kind))
    for key in ("auth", "connection"):
        if key in cursor:
            config[key] = cursor[key]
            check_templates(reader, cursor[key], (*path, key))
    return Cursor(Task("claim", kind, config), frame)


def _kind(reader: Reader, cursor: Mapping[str, Any], path: Path, kinds: Mapping[str, ToolSpec]) -> str:
    able = sorted(kind for kind, tool in kinds.items() if tool.claims) or ["postgres"]
    if not reader.required(cursor, "kind", path, "a cursor", f"add kind: {able[0]}"):
        return ""
    kind = cursor["kind"]
    if isinstance(kind, str) and kind in able:
        return kind
    reader.value((*path, "kind"), "DSL204", f"no rows can be claimed with kind {short(kind)}",
                 f"one of: {', '.join(able)}")
    return ""
