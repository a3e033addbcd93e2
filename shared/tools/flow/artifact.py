"""`kind: artifact`: a stored result, read by its reference (`{{ step._ref }}`). What is small enough to stay in
the log is its own reference: it is answered as it is."""

from collections.abc import Mapping
from typing import Any

import msgspec

from shared.errors import Corrupt, NoetlError
from shared.events.outcome import Outcome, Ref, Shape, failed, ok
from shared.tools.base.contract import Call, KeySpec, ToolOptions, ToolSpec
from shared.tools.base.guard import BadCall, guarded, mapping

_FIELDS = frozenset({"store", "key", "checksum", "size"})
_SHAPES: dict[str, Shape] = {"value": "value", "http": "http", "sql": "sql"}

SPEC = ToolSpec(
    kind="artifact",
    doc="Reads a stored result. Result: the value, as the step that made it gave it.",
    keys={
        "action": KeySpec("get, which it is unless given. A large result is stored by itself: nothing has to be put.",
                          choices=("get",)),
        "result_ref": KeySpec("The reference, {{ step._ref }}; or a value, which is answered as it is."),
        "path": KeySpec("The part to answer with, such as items.0.name; all of it unless given."),
        "args": KeySpec("result_ref and path may also stand here.", fields={
            "result_ref": KeySpec("As beside args."),
            "path": KeySpec("As beside args."),
        }),
    },
    reads=lambda _config, _spec: True,
)


class ArtifactTool:
    def __init__(self, options: ToolOptions) -> None:
        self._load = options.load

    async def run(self, call: Call) -> Outcome:
        return await guarded(call, self._run(call))

    async def close(self) -> None:
        """Nothing to release."""

    async def _run(self, call: Call) -> Outcome:
        config = {**mapping(call.config, "args"), **call.config}
        if config.get("action", "get") != "get":
            raise BadCall("action must be get: a large result is stored by itself")
        given = config.get("result_ref")
        if not isinstance(given, Mapping | list):
            raise BadCall("result_ref must be a reference such as {{ step._ref }}, or a mapping or list")
        if not isinstance(given, Mapping) or not set(given) >= _FIELDS:
            return _answer(given, config.get("path"), "value")
        try:
            ref = msgspec.convert(dict(given), Ref)
        except msgspec.ValidationError as error:
            raise BadCall(f"result_ref is not a reference: {error}") from None
        if ref.schema_hint not in _SHAPES:
            raise BadCall(f"the reference is to a {ref.schema_hint or 'value of no known shape'}, not to a result")
        try:
            value = await self._load(ref)
        except NoetlError as error:
            return failed("artifact", str(error), retryable=not isinstance(error, Corrupt))
        return _answer(value, config.get("path"), _SHAPES[ref.schema_hint])


def _answer(value: Any, path: Any, shape: Shape) -> Outcome:
    if path is None:
        return ok(value, shape=shape)
    for part in str(path).split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return failed("artifact", f"the value has no {str(path)[:200]}")
    return ok(value)
